"""DL208: notes in which mode a model is called before each step of an optimizer that holds its parameters."""

from __future__ import annotations

from collections import Counter
from weakref import ReferenceType, ref

from dllint.confirm.probes.base import ENOUGH, Judgements, ObjectProbe, Samples, alarm_if, decided, events, nn, stack_of
from dllint.confirm.probes.evaluation import is_modal
from dllint.confirm.probes.events import Stack

_MOST = 16  # calls before a backward pass that are remembered
_Called = tuple[ReferenceType[nn.Module], bool]  # a model that was called, and whether in training mode


class _Trained(Samples):
    """The steps that a model was trained with from one place: backward passes from there, and its mode."""

    training: int = 0  # in training mode, before it was evaluated
    never: int = 0  # in evaluation mode, before and after it was evaluated; none in training mode
    back: int = 0  # in training mode, after it was evaluated
    left: int = 0  # in evaluation mode, after it was evaluated, without a step in training mode since
    evaluated: int = 0


class _Model(Samples):
    """A model: the calls that evaluate it, the steps by place, and how often it was put into either mode."""

    evaluated: int = 0
    trained: dict[Stack, _Trained] = {}
    to_training: int = 0
    to_evaluation: Counter[Stack] = Counter()


class TrainingMode(ObjectProbe[_Model]):
    _called: list[_Called] = []  # since the last backward pass
    _ready: tuple[Stack, list[_Called]] | None = None  # those that a backward pass has followed

    def on_model_forward(self, event: events.ModelForward) -> None:
        if not self.has_part(event.model, is_modal):
            return
        if event.grad == "on":
            if len(self._called) < _MOST:
                self._called.append((ref(event.model), event.model.training))
        elif not event.model.training and (model := self.of(event.model)) is not None:
            model.evaluated += 1

    def on_mode_change(self, event: events.ModeChange) -> None:
        model = self.of(event.model)
        if model is not None and event.training:
            model.to_training += 1
        elif model is not None:
            model.to_evaluation[stack_of(event)] += 1

    def before_backward(self, call: events.BackwardCall) -> None:
        self._ready = (stack_of(call), self._called) if self._called else None
        self._called = []

    def on_gap(self) -> None:
        self._called, self._ready = [], None

    def on_optimizer_step(self, event: events.OptimizerStep) -> None:
        if self._ready is None:
            return
        (place, called), self._ready = self._ready, None
        samples = self.run.gradients.of(event.optimizer).samples()
        for known, is_training in called:
            module = known()
            model = self.of(module) if module is not None else None
            if module is None or model is None:
                continue
            # put into evaluation mode again and again, as if something else put it back
            is_forgotten = not model.to_training and max(model.to_evaluation.values(), default=0) > 1
            if not is_training and place not in model.trained and not is_forgotten:
                continue  # it has never been trained from here, and that seems to be meant
            own = {id(parameter) for parameter in module.parameters()} if not is_training else set()
            if is_training or not own.isdisjoint(map(id, samples)):
                self._note(model, place, is_training)

    def _note(self, model: _Model, place: Stack, is_training: bool) -> None:
        trained = model.trained.setdefault(place, _Trained(stacks=(place,), first=self.run.steps))
        trained.last = self.run.steps
        trained.evaluated = model.evaluated
        if not is_training and not trained.training and not trained.back:
            trained.never += 1
        elif not is_training:
            trained.left = trained.left + 1 if trained.evaluated else 0
        elif trained.evaluated:
            trained.back += 1
            trained.left = 0
        else:
            trained.training += 1

    def judge(self) -> Judgements:
        for seen in (each for model in self.seen for each in model.trained.values() if each.evaluated):
            is_never = seen.never >= ENOUGH and not seen.training and not seen.back
            is_left = seen.training >= ENOUGH and seen.left >= ENOUGH and not seen.back
            seen.looks = seen.training + seen.back + seen.left + seen.never
            verdict = decided(is_left or is_never, seen.back >= ENOUGH and not seen.left)
            yield self.judgement("DL208", seen, verdict, "", alarm_if(not is_never))
