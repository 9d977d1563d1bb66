"""What a probe is: it listens to events of the run, and judges rules when observation ends."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from torch import Tensor, nn
from torch.optim import Optimizer

from dllint import events
from dllint.confirm.evidence import Judgement, Stack, Verdict, Voice
from dllint.confirm.inside.places import Place
from dllint.events import Event

if TYPE_CHECKING:
    from dllint.confirm.inside.run import Run

S = TypeVar("S", bound="Samples")

ENOUGH = 3
"""Observations from which a statistic counts."""


@dataclass(slots=True, eq=False)
class LossCall(events.LossCall[Tensor]):
    """A call of a loss function of ``torch.nn.functional``, whose tensors are all known."""

    input: Tensor
    target: Tensor


@dataclass(slots=True, eq=False)
class BackwardCall(events.Backward[Tensor]):
    """A call of ``torch.autograd.backward``, from one tensor or several; ``factor`` is the number that its gradient
    argument multiplies by."""

    roots: Sequence[Tensor] = ()
    factor: float = 1.0
    leaves: list[Tensor] | None = None  # the tensors that it sends gradients to, where the graph was looked at
    scale: float = 1.0  # that a scaler has multiplied the loss by
    _value: float | None = None

    @property
    def value(self) -> float | None:
        """The loss, unscaled; None where it is no single number. Reads from the device, once."""
        if self._value is None and self.loss is not None and self.loss.numel() == 1:
            self._value = float(self.loss.detach()) / self.scale
        return self._value


@dataclass(slots=True)
class Load:
    """A call of ``load_state_dict``: the names that it was ``given``, and those that the module has. ``error`` is what
    it raised, if it did."""

    module: nn.Module
    given: set[str]
    parameters: set[str]
    buffers: set[str]
    strict: bool
    error: str
    stack: Stack


@dataclass(slots=True)
class Batches:
    """One pass over a data loader, which was ``made`` at a place. ``indices`` are those of the first batches, as far as
    there are any; those of batches that workers are still making are among them."""

    owner: Callable[[], Any]
    number: int  # of the pass over this loader, from 0
    taken: int = 0
    indices: list[Any] = field(default_factory=list)
    made: Stack = ()

    @property
    def loader(self) -> Any:
        """The loader; None where it owns what iterates over it, and is gone all the same."""
        return self.owner()


class Probe:
    """Listens to the run by overriding some of the hooks. Whatever one raises stays inside dllint.

    What the vocabulary has an event for is told by it, to the hook that rules have for it; of what takes its time, the
    beginning is told as well (``before_…``). The other hooks are about what only a run can see.
    """

    name: ClassVar[str]
    turn: ClassVar[int] = 0  # when it listens, and judges, among the others: those that others ask come before them

    def __init__(self, run: Run) -> None:
        self.run = run

    def on_optimizer_created(self, event: events.OptimizerCreated[Any]) -> None:
        """An optimizer has been made."""

    def on_model_forward(self, event: events.ModelForward[Any]) -> None:
        """A model is called that is called by no other: a module that has parameters. There is no result yet."""

    def on_call_aside(self, module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any], stack: Stack) -> None:
        """A module without parameters is called by no model: a criterion, a transform, a metric."""

    def on_mode_change(self, event: events.ModeChange[Any]) -> None:
        """A module has been put into training or evaluation mode."""

    def on_dropout(self, training: bool, probability: float, outermost: nn.Module | None, stack: Stack) -> None:
        """A function that drops is called, inside of the call of ``outermost``."""

    def on_loss_call(self, call: LossCall) -> None:
        """A loss has been computed."""

    def on_loss_refused(self, function: str, input: Tensor, target: Tensor, stack: Stack) -> None:
        """A loss function has raised an exception."""

    def on_logits(self, logits: Tensor, stack: Stack) -> None:
        """A categorical distribution has been made of what is given as its logits."""

    def on_deviation(self, values: Tensor, result: Tensor, stack: Stack) -> None:
        """``Tensor.std`` has been computed over a whole tensor."""

    def on_lookup_refused(self, indices: Tensor, weight: Tensor, stack: Stack) -> None:
        """An embedding has raised an exception."""

    def on_load(self, load: Load) -> None:
        """``load_state_dict`` of a module has been called."""

    def on_derivative(self) -> None:
        """``torch.autograd.grad`` is called."""

    def before_backward(self, call: BackwardCall) -> None:
        """Gradients are about to be computed."""

    def on_backward(self, call: BackwardCall) -> None:
        """Gradients have been computed."""

    def on_zero_grad(self, event: events.ZeroGrad[Any]) -> None:
        """``zero_grad`` of an optimizer or module has been called."""

    def on_gradient_clip(self, event: events.GradientClip[Any]) -> None:
        """Gradients of a list of parameters are about to be clipped."""

    def before_optimizer_step(self, event: events.OptimizerStep[Any]) -> None:
        """An optimizer is about to step. Where it is given a closure, there are no gradients yet."""

    def on_optimizer_step(self, event: events.OptimizerStep[Any]) -> None:
        """An optimizer has stepped."""

    def on_step_passed_over(self, optimizer: Optimizer) -> None:
        """An optimizer has stepped while observing rested. Nothing else is told of such a step."""

    def on_gap(self) -> None:
        """Observing has rested until now: what is under way may have begun before, or without being told of."""

    def on_scheduler_step(self, event: events.SchedulerStep[Any]) -> None:
        """A scheduler has stepped; with arguments where it was told the epoch."""

    def on_plateau(self, scheduler: Any, metric: float | None, stack: Stack) -> None:
        """A scheduler that waits for a plateau is about to be told a metric; None where it is not given any."""

    def on_rates_asked(self, scheduler: Any, rates: list[float], stack: Stack) -> None:
        """``get_lr`` of a scheduler has returned something to the script."""

    def on_scale(self, scaler: Any, scaled: Tensor) -> None:
        """A scaler has scaled a loss."""

    def on_scaler_unscale(self, event: events.ScalerUnscale[Any]) -> None:
        """A scaler has unscaled the gradients of an optimizer."""

    def on_scaler_update(self, event: events.ScalerUpdate[Any]) -> None:
        """A scaler has been updated."""

    def on_reward(self, environment: Any, reward: float, is_terminal: bool) -> None:
        """An environment has taken a step; ``is_terminal`` where the episode is over by it."""

    def on_episode(self, environment: Any) -> None:
        """An environment has been reset."""

    def on_agent_learns(self, agent: Any, stack: Stack) -> None:
        """An agent of Stable-Baselines3 is about to learn."""

    def on_agent_saved(self, agent: Any, stack: Stack) -> None:
        """An agent of Stable-Baselines3 has been saved."""

    def on_normalizer(self, what: str, normalizer: Any, stack: Stack) -> None:
        """What normalizes observations for agents has been ``saved`` or ``restored``, or ``used`` for a step."""

    def on_pass(self, batches: Batches) -> None:
        """A pass over a loader begins."""

    def on_batch(self, batches: Batches, batch: Any) -> None:
        """A batch has been taken from a loader."""

    def on_batch_refused(self, batches: Batches, error: Exception) -> None:
        """A loader has raised an exception in place of a batch."""

    def on_pass_end(self, batches: Batches) -> None:
        """A loader has no more batches. Not told where dllint ends the pass."""

    def on_replicate(self, module: nn.Module, stack: Stack) -> None:
        """A model has been wrapped in DistributedDataParallel, which ``module`` is."""

    def on_average(self, average: nn.Module) -> None:
        """An ``AveragedModel`` has taken in the weights of a model."""

    def on_state_saved(self, event: events.StateSaved[Any]) -> None:
        """Something is about to be saved, where ``torch.save`` was told to: a path, or a file that is open."""

    def on_state_read(self, event: events.StateRead[Any]) -> None:
        """``torch.load`` has read something."""

    def on_state_restored(self, event: events.StateRestored[Any]) -> None:
        """``load_state_dict`` of a module, an optimizer, a scheduler or a scaler is about to take a state."""

    def on_latents(self, latents: Tensor, vae: nn.Module | None, stack: Stack) -> None:
        """Latents have been drawn from what an autoencoder of diffusers has made of images; ``vae`` is None where that
        is not known."""

    def on_trainer(self, trainer: Any, given: Any, error: Exception | None, stack: Stack) -> None:
        """A trainer of trl has been made for a dataset, or has begun to train (``given`` is None then), and raised an
        exception unless ``error`` is None."""

    def on_state_taken(self, event: events.StateTaken[Any]) -> None:
        """A module that is part of no other call has been asked for its ``state_dict``."""

    def on_accelerator_save(self, accelerator: Any, stack: Stack) -> None:
        """``save_state`` of an ``Accelerator`` is about to save."""

    def on_sharded_read(self, state: Any, stack: Stack) -> None:
        """``torch.distributed.checkpoint`` has read something into a dict of states."""

    def judge(self) -> Iterator[Judgement]:
        """What the probe has found out, when observation ends."""
        return iter(())


@dataclass(slots=True, eq=False)
class Samples:
    """What was seen of one place; probes add what they look for.

    Attributes:
        first, last: the steps of the run at the first and at the last call.
        calls: calls from there.
        looks: those that say something.
        wrong: those of them that are what a rule is about.
    """

    first: int = 0
    last: int = 0
    calls: int = 0
    looks: int = 0
    wrong: int = 0


class PlaceProbe(Probe, Generic[S]):
    """Judges each place by samples: the first calls from there, and one in so many of those after them.

    A place is a stack, or whatever tells what is judged apart.

    Attributes:
        samples: the class of what is noted for each place.
        at_first: so many calls from each place are all looked at.
        seen: what was noted, by place.
    """

    samples: ClassVar[type[Samples]] = Samples
    at_first: ClassVar[int] = 10

    def __init__(self, run: Run) -> None:
        super().__init__(run)
        self.seen: dict[Any, S] = {}

    def at(self, place: Hashable) -> S:
        """What is known of a place, with a further call from there."""
        seen = self.seen.get(place)
        if seen is None:
            seen = self.seen[place] = cast(S, self.samples(self.run.steps))
        seen.calls += 1
        return seen

    def sample(self, place: Hashable) -> S | None:
        """What is known of a place, if the present call from there is to be looked at."""
        seen = self.at(place)
        if seen.calls > self.at_first and seen.calls % self.run.every:
            return None
        seen.last = self.run.steps
        return seen

    def judge(self) -> Iterator[Judgement]:
        for place, seen in self.seen.items():
            yield from self.judge_place(place, seen)

    def judge_place(self, place: Any, seen: S) -> Iterator[Judgement]:
        """What the samples of a place have shown."""
        return iter(())

    def judgement(
        self,
        rule: str,
        stack: Stack,
        seen: Samples,
        verdict: Verdict,
        message: str,
        threshold: str,
        statistics: dict[str, Any],
        voice: Voice = "alarm",
    ) -> Judgement:
        """A judgement on a place by its samples."""
        steps = (seen.first, seen.last)
        return Judgement(rule, self.name, verdict, message, threshold, statistics, seen.looks, steps, (stack,), voice)


def stack_of(event: Event) -> Stack:
    """The lines of the user's that an event of a run comes from, innermost first."""
    return cast(Place, event.site).stack


def unanimous(wrong: int, looks: int) -> Verdict:
    """The verdict where all of enough observations have to agree."""
    if looks < ENOUGH or 0 < wrong < looks:
        return "INCONCLUSIVE"
    return "CONFIRMED" if wrong else "REFUTED"


def spread(values: Sequence[float]) -> str:
    """The range of some numbers, for messages."""
    low, high = min(values), max(values)
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
