"""What a probe is: it listens to events of the run, and judges rules by what it has seen when observation ends.

What nearly all probes need is imported from here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast, get_args
from weakref import WeakKeyDictionary, WeakSet

from torch import Tensor as Tensor
from torch import nn as nn
from torch.optim import Optimizer as Optimizer

from dllint.confirm.evidence import Judgement as Judgement
from dllint.confirm.evidence import Stack as Stack
from dllint.confirm.evidence import Verdict as Verdict
from dllint.confirm.evidence import Voice as Voice
from dllint.confirm.probes import events as events
from dllint.confirm.probes.events import stack_of as stack_of
from dllint.dataclass import dataclass

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform

    from dllint.confirm.inside.run import Run
else:

    def dataclass_transform(**_):  # which only checkers of types look at
        return lambda kind: kind


Judgements = Iterator[Judgement]

ENOUGH = 3
"""Observations from which a statistic counts."""

_CONTAINERS = (list, dict, set, deque, WeakSet, WeakKeyDictionary)
_MOST = 50  # values of a list that a judgement keeps


@dataclass_transform(eq_default=False)
class Notes:
    """What a probe notes down. What extends it is a data class, whose objects have their own default containers."""

    def __init_subclass__(cls) -> None:
        for name in cls.__annotations__:
            default = vars(cls).get(name)
            if isinstance(default, _CONTAINERS):
                setattr(cls, name, field(default_factory=default.copy))
        dataclass(eq=False)(cls)


class Samples(Notes):
    """What was seen of one place, or of one object; probes extend it by what they look for."""

    place: tuple[Any, ...] = ()  # stacks, and whatever else tells what is judged apart
    stacks: tuple[Stack, ...] = ()  # the lines that it is about
    first: int = 0  # the step of the run at the first call
    last: int = 0  # the same at the last
    calls: int = 0
    looks: int = 0  # calls that say something
    wrong: int = 0  # those of them that are what a rule is about
    what: str = ""  # the name of what was called there, for words
    more: dict[str, Any] = {}  # other numbers and names, for words

    def count(self, is_wrong: bool = False) -> None:
        """Note a look, and what it has shown."""
        self.looks += 1
        self.wrong += is_wrong

    @property
    def rule(self) -> str:
        """The code that the place begins with, where several are judged at the same lines."""
        return str(self.place[0])

    @property
    def unanimous(self) -> Verdict:
        """The verdict where all of enough looks have to agree."""
        return self.verdict(self.wrong == self.looks, not self.wrong)

    def verdict(self, is_wrong: object, is_good: object = True) -> Verdict:
        """The verdict where looks have to be enough; what is not wrong is good then, if nothing else is said."""
        return decided(self.looks >= ENOUGH and is_wrong, self.looks >= ENOUGH and is_good)

    def numbers(self) -> dict[str, Any]:
        """What was counted, measured and named, unless it is nothing: for words, and for those who want to see it."""
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.name not in _NO_NUMBERS}
        return {name: plain for name, value in {**own, **self.more}.items() if (plain := _plain(value))}


_NO_NUMBERS = ("place", "stacks", "first", "last", "looks", "more")


def _plain(value: Any) -> Any:
    """A value that JSON has words for; None for any other."""
    if isinstance(value, (list, set)):
        is_plain = all(isinstance(item, (int, float, str)) for item in value)
        return (value if isinstance(value, list) else sorted(value))[:_MOST] if is_plain else None
    return value if isinstance(value, (int, float, str)) else None


def decided(is_wrong: object, is_good: object) -> Verdict:
    """The verdict by what confirms and what refutes."""
    return "CONFIRMED" if is_wrong else "REFUTED" if is_good else "INCONCLUSIVE"


def alarm_if(is_certain: object) -> Voice:
    """How a judgement speaks that is a note otherwise."""
    return "alarm" if is_certain else "note"


def repeated(wrong: int) -> Verdict:
    """The verdict where it has to happen often enough, and a single time does not refute."""
    return decided(wrong >= ENOUGH, not wrong)


class Probe:
    """Listens to the run by overriding some of the hooks. Whatever one raises stays inside dllint. What it remembers
    begins as the class says: each probe has its own copy of a container.

    What the vocabulary has an event for is told by it, to the hook that rules have for it; of what takes its time, the
    beginning is told as well (``before_…``). The other hooks are about what only a run can see.
    """

    name: ClassVar[str]  # that of its file
    turn: ClassVar[int] = 0  # when it listens, and judges, among the others: those that others ask come before them
    judged: list[Judgement] = []  # what is known before observation ends
    _times: Counter[Hashable] = Counter()
    _met: WeakSet[Any] = WeakSet()
    _parts: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.name = cls.__module__.rpartition(".")[2]

    def __init__(self, run: Run) -> None:
        self.run = run
        for kind in reversed(type(self).__mro__):
            for name, value in vars(kind).items():
                if isinstance(value, _CONTAINERS) and not name.startswith("__"):
                    setattr(self, name, value.copy())
        self.begin()

    def begin(self) -> None:
        """What else there is to do before anything is told."""

    # of the vocabulary
    def on_gradient_clip(self, event: events.GradientClip) -> None: ...  # is about to clip
    def on_loss_call(self, call: events.LossCall) -> None: ...
    def on_mode_change(self, event: events.ModeChange) -> None: ...
    def on_model_forward(self, event: events.ModelForward) -> None: ...  # one that no other calls; has no result yet
    def on_optimizer_created(self, event: events.OptimizerCreated) -> None: ...
    def before_optimizer_step(self, event: events.OptimizerStep) -> None: ...  # no gradients yet, where given a closure
    def on_optimizer_step(self, event: events.OptimizerStep) -> None: ...
    def on_scaler_unscale(self, event: events.ScalerUnscale) -> None: ...
    def on_scaler_update(self, event: events.ScalerUpdate) -> None: ...
    def on_scheduler_step(self, event: events.SchedulerStep) -> None: ...  # with arguments where it was told the epoch
    def on_state_read(self, event: events.StateRead) -> None: ...
    def on_state_restored(self, event: events.StateRestored) -> None: ...  # is about to take the state
    def on_state_saved(self, event: events.StateSaved) -> None: ...  # is about to save, to a path or an open file
    def on_state_taken(self, event: events.StateTaken) -> None: ...  # of a module that is asked by no other
    def on_zero_grad(self, event: events.ZeroGrad) -> None: ...
    def before_backward(self, call: events.BackwardCall) -> None: ...
    def on_backward(self, call: events.BackwardCall) -> None: ...

    # models
    # a module without parameters is called by no model: a criterion, a transform, a metric
    def on_call_aside(
        self, module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], stack: Stack
    ) -> None: ...
    def on_dropout(self, drops: bool, stack: Stack) -> None: ...  # a function that may, in a model in evaluation mode
    def on_load(self, load: events.Load) -> None: ...  # ``load_state_dict`` has been called
    def on_average(self, average: nn.Module, stack: Stack) -> None: ...  # has taken in the weights of a model
    def on_replicate(self, module: nn.Module, stack: Stack) -> None: ...  # wrapped in DistributedDataParallel
    def on_latents(self, latents: Tensor, vae: nn.Module | None, stack: Stack) -> None: ...  # drawn from an autoencoder

    # functions
    def on_loss_refused(self, function: str, input: Tensor, target: Tensor, stack: Stack) -> None: ...
    def on_lookup_refused(self, indices: Tensor, weight: Tensor, stack: Stack) -> None: ...  # by an embedding
    def on_logits(self, logits: Tensor, stack: Stack) -> None: ...  # of a categorical distribution
    def on_deviation(self, values: Tensor, result: Tensor, stack: Stack) -> None: ...  # ``Tensor.std`` of a whole one
    def on_derivative(self) -> None: ...  # ``torch.autograd.grad`` is called

    # optimizers, schedulers and scalers
    def on_step_passed_over(self, optimizer: Optimizer) -> None: ...  # in a rest, if ``run.tells_of_each_step``
    def on_gap(self) -> None: ...  # observing has rested: what is under way may have begun without being told of
    def on_plateau(self, scheduler: Any, metric: float | None, stack: Stack) -> None: ...  # is about to be told it
    def on_rates_asked(self, scheduler: Any, rates: list[float], stack: Stack) -> None: ...  # by ``get_lr``
    def on_scale(self, scaler: Any, scaled: Tensor) -> None: ...

    # loaders
    def on_pass(self, batches: events.Batches) -> None: ...  # begins
    def on_batch(self, batches: events.Batches, batch: Any) -> None: ...
    def on_batch_refused(self, batches: events.Batches, error: Exception) -> None: ...
    def on_pass_end(self, batches: events.Batches) -> None: ...  # not where dllint ends it

    # libraries
    def on_reward(self, environment: Any, reward: float, is_terminal: bool) -> None: ...
    def on_episode(self, environment: Any, stack: Stack) -> None: ...  # the environment has been reset
    def on_agent_learns(self, agent: Any, stack: Stack) -> None: ...  # is about to
    def on_agent_saved(self, agent: Any, stack: Stack) -> None: ...
    def on_normalizer(self, what: str, normalizer: Any, stack: Stack) -> None: ...  # ``saved``, ``restored``, ``used``
    def on_accelerator_save(self, accelerator: Any, stack: Stack) -> None: ...  # is about to
    def on_sharded_read(self, state: Any, stack: Stack) -> None: ...
    def on_trainer(self, trainer: Any, given: Any, error: Exception | None, stack: Stack) -> None:
        """A trainer of trl was made for a dataset, or begins to train (``given`` is None); ``error`` if that failed."""

    def judge(self) -> Judgements:
        """What the probe has found out, when observation ends."""
        return iter(self.judged)

    def judgement(
        self, rule: str, seen: Samples, verdict: Verdict, told: str = "", voice: Voice = "declared", /, **found: Any
    ) -> Judgement:
        """A judgement by what was seen, whose numbers are among the statistics, as those that were ``found`` are.

        The tables say the words of a rule, what it is compared with, and how it speaks. ``told`` is said after these
        words, or all that is said where there are none; ``voice`` is how it speaks, where that depends.
        """
        numbers, steps = {**seen.numbers(), **found}, (seen.first, seen.last)
        return Judgement(rule, self.name, verdict, told, "", numbers, seen.looks, steps, seen.stacks, voice)

    def judge_now(
        self, rule: str, seen: Samples, is_wrong: object, told: str = "", voice: Voice = "declared", /, **found: Any
    ) -> None:
        """Judge before observation ends, where what is seen confirms or refutes."""
        self.judged.append(self.judgement(rule, seen, decided(is_wrong, True), told, voice, **found))

    def whole(self, *stacks: Stack, looks: int = 1) -> Samples:
        """What was seen in the whole run, of some places or of none in particular."""
        return Samples(stacks=stacks, last=self.run.steps, looks=looks)

    def now(self, *stacks: Stack, looks: int = 1) -> Samples:
        """What is seen in this step."""
        return Samples(stacks=stacks, first=self.run.steps, last=self.run.steps, looks=looks)

    def is_sampled(self, number: int, at_first: int) -> bool:
        """Whether to look at something, by its number from 1: so many at first, and then one in so many."""
        return number <= at_first or number % self.run.settings.every == 0

    def is_next_sampled(self, of: Hashable, at_first: int) -> bool:
        """The same by a count that is kept here: of calls from a place, for instance."""
        self._times[of] += 1
        return self.is_sampled(self._times[of], at_first)

    def has_part(self, module: nn.Module, is_meant: Callable[[nn.Module], bool]) -> bool:
        """Whether any part of a model is meant; each model is looked through once, and always for the same."""
        has_part = self._parts.get(module)
        if has_part is None:
            has_part = self._parts[module] = any(map(is_meant, module.modules()))
        return has_part

    def is_new(self, thing: Any) -> bool:
        """Whether an object is met here for the first time."""
        is_new = thing not in self._met
        self._met.add(thing)
        return is_new


S = TypeVar("S", bound=Samples)


class _Collecting(Probe, Generic[S], ABC):
    """Notes ``samples`` of one kind, the class that it is given, and judges them one by one."""

    rule: ClassVar[str]  # that all looks have to agree about, unless ``judge_each`` says otherwise
    samples: ClassVar[type[Samples]] = Samples

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for kind in (kind for base in vars(cls).get("__orig_bases__", ()) for kind in get_args(base)):
            cls.samples = kind if isinstance(kind, type) else cls.samples

    @abstractmethod
    def noted(self) -> Iterable[S]:
        """All that was noted."""

    def judge(self) -> Judgements:
        yield from super().judge()
        for seen in self.noted():
            yield from self.judge_each(seen)

    def judge_each(self, seen: S) -> Judgements:
        """What the samples of a place, or of an object, have shown."""
        if seen.looks:
            yield self.judgement(self.rule, seen, seen.unanimous)


class PlaceProbe(_Collecting[S]):
    """Judges each place by samples: the first calls from there, and one in so many of those after them."""

    at_first: ClassVar[int] = 10  # so many calls from each place are all looked at
    seen: dict[tuple[Hashable, ...], S] = {}  # what was noted, by place

    def noted(self) -> Iterable[S]:
        return self.seen.values()

    def at(self, *place: Hashable) -> S:
        """What is known of a place, with a further call from there."""
        seen = self._called(place)
        seen.last = self.run.steps
        return seen

    def sample(self, *place: Hashable) -> S | None:
        """The same, if this call is to be looked at."""
        seen = self._called(place)
        if not self.is_sampled(seen.calls, self.at_first):
            return None
        seen.last = self.run.steps
        return seen

    def _called(self, place: tuple[Hashable, ...]) -> S:
        seen = self.seen.get(place)
        if seen is None:
            stacks = tuple(part for part in place if isinstance(part, tuple))
            seen = self.seen[place] = cast(S, self.samples(place, stacks, self.run.steps))
        seen.calls += 1
        return seen


class ObjectProbe(_Collecting[S]):
    """Judges each object of a kind, such as a model. It may be gone when the run ends; what is known of it is not."""

    seen: list[S] = []  # what was noted, in the order in which the objects came
    known: WeakKeyDictionary[Any, S | None] = WeakKeyDictionary()  # None for objects that are not judged

    def noted(self) -> Iterable[S]:
        for seen in self.seen:
            seen.last = seen.last or self.run.steps
            yield seen

    def of(self, thing: Any, *place: Any) -> S | None:
        """What is known of an object, which was met at a place; None if it is not to be judged."""
        seen = self.known.get(thing, ...)
        if seen is ...:
            seen = self.known[thing] = self.describe(thing, *place)
            if seen is not None:
                self.seen.append(seen)
        return seen

    def due(self) -> Iterator[tuple[Any, S]]:
        """The objects that are to be looked at in this step, with what is known of them."""
        is_sampled = self.run.steps % self.run.settings.every == 0
        for thing, seen in self.known.items() if self.seen else ():
            if seen is not None and (seen.looks < ENOUGH or is_sampled):
                yield thing, seen

    def describe(self, thing: Any, *place: Any) -> S | None:
        """What there is to know of an object when it is met; None if it is not to be judged."""
        return cast(S, self.samples(place, place, self.run.steps))


def parameters_of(optimizer: Optimizer) -> list[Tensor]:
    """All parameters of an optimizer."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
