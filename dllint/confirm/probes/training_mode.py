"""DL208: notes in which mode a model is called before each step of an optimizer that holds its parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from weakref import ReferenceType, WeakKeyDictionary, ref

from torch import nn

from dllint.confirm.probes.base import ENOUGH, Judgements, Probe, Samples, alarm_if, decided
from dllint.confirm.probes.evaluation import is_modal
from dllint.confirm.probes.events import BackwardCall, ModeChange, ModelForward, OptimizerStep, Stack, stack_of

_MOST = 16  # calls before a backward pass that are remembered
_Called = tuple[ReferenceType[nn.Module], bool]  # a model that was called, and whether in training mode


@dataclass(slots=True, eq=False)
class _Trained(Samples):
    """The steps that a model was trained with from one place: backward passes from there, and its mode."""

    training: int = 0  # in training mode, before it was evaluated
    never: int = 0  # in evaluation mode, before and after it was evaluated; none in training mode
    back: int = 0  # in training mode, after it was evaluated
    left: int = 0  # in evaluation mode, after it was evaluated, without a step in training mode since
    evaluated: int = 0


@dataclass(slots=True, eq=False)
class _Modes:
    """How often a model was put into either mode; into that of evaluation, from each place."""

    to_training: int = 0
    to_evaluation: dict[Stack, int] = field(default_factory=dict)


class TrainingMode(Probe):
    def begin(self) -> None:
        self._modal: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()
        self._evaluated: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()
        self._seen: WeakKeyDictionary[nn.Module, dict[Stack, _Trained]] = WeakKeyDictionary()
        self._modes: WeakKeyDictionary[nn.Module, _Modes] = WeakKeyDictionary()
        self._all: list[_Trained] = []
        self._called: list[_Called] = []  # since the last backward pass
        self._ready: tuple[Stack, list[_Called]] | None = None  # those that a backward pass has followed

    def on_model_forward(self, event: ModelForward) -> None:
        module = event.model
        modal = self._modal.get(module)
        if modal is None:
            modal = self._modal[module] = any(is_modal(part) for part in module.modules())
        if not modal:
            return
        if event.grad == "on":
            if len(self._called) < _MOST:
                self._called.append((ref(module), module.training))
        elif not module.training:
            self._evaluated[module] = self._evaluated.get(module, 0) + 1

    def on_mode_change(self, event: ModeChange) -> None:
        training = bool(event.training)
        stack = stack_of(event)
        modes = self._modes.setdefault(event.model, _Modes())
        modes.to_training += training
        if not training:
            modes.to_evaluation[stack] = modes.to_evaluation.get(stack, 0) + 1

    def before_backward(self, call: BackwardCall) -> None:
        self._ready = (stack_of(call), self._called) if self._called else None
        self._called = []

    def on_gap(self) -> None:
        self._called, self._ready = [], None

    def on_optimizer_step(self, event: OptimizerStep) -> None:
        if self._ready is None:
            return
        (place, called), self._ready = self._ready, None
        samples = self.run.gradients.of(event.optimizer).samples()
        for known, is_training in called:
            module = known()
            by_place = {} if module is None else self._seen.setdefault(module, {})
            if module is None or (not is_training and place not in by_place and not self._is_forgotten(module)):
                continue  # it has never been trained from here, and that seems to be meant
            own = {id(parameter) for parameter in module.parameters()} if not is_training else set()
            if is_training or not own.isdisjoint(map(id, samples)):
                self._note(by_place, place, module, is_training)

    def _is_forgotten(self, module: nn.Module) -> bool:
        """Whether a model is put into evaluation mode again and again, as if something else put it back."""
        modes = self._modes.get(module)
        return modes is not None and not modes.to_training and max(modes.to_evaluation.values(), default=0) > 1

    def _note(self, by_place: dict[Stack, _Trained], place: Stack, module: nn.Module, is_training: bool) -> None:
        trained = by_place.get(place)
        if trained is None:
            trained = by_place[place] = _Trained(stacks=(place,), first=self.run.steps)
            self._all.append(trained)
        trained.last = self.run.steps
        trained.evaluated = self._evaluated.get(module, 0)
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
        for seen in self._all:
            if seen.evaluated:
                is_never = seen.never >= ENOUGH and not seen.training and not seen.back
                is_left = seen.training >= ENOUGH and seen.left >= ENOUGH and not seen.back
                seen.looks = seen.training + seen.back + seen.left + seen.never
                verdict = decided(is_left or is_never, seen.back >= ENOUGH and not seen.left)
                yield self.judgement("DL208", seen, verdict, "", alarm_if(not is_never))
