"""In which mode a module is: training, evaluation, or one that is not known."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from dllint.assumptions import Assumption, Assumptions
from dllint.context.phases import Phases
from dllint.context.sources import Sources
from dllint.events import Event, ModeChange, ModelForward, OpaqueCall
from dllint.flow import Flow
from dllint.values import Instance, Symbol, Value

Mode = Literal["train", "eval", "unknown"]

_KINDS = (ModelForward, ModeChange, OpaqueCall)
_READY_MADE = ("from_pretrained", "from_config", "hub.load")  # come in evaluation mode, or in one not known


@dataclass(frozen=True, slots=True)
class Modes:
    """The modes of one module on all paths. ``start`` is the one it has before the program sets any; that rests on
    ``assumptions``."""

    start: Mode
    assumptions: Assumptions
    flow: Flow[Mode]

    def at(self, event: ModelForward) -> set[Mode]:
        """The modes in which a call of the module finds it; none where it is not called there."""
        return self.flow.arrivals.get(event, set())


class ModesOfModules(Phases, Sources):
    """The modes of the modules of a program."""

    def modes(self, model: Value, calls: tuple[ModelForward, ...] = ()) -> Modes:
        """In which modes a module is called.

        Args:
            model: the module.
            calls: those of its calls that are in question; by them the mode of a module that is handed in is told.
        """
        start, assumptions = self._start(model, calls)
        flow = self.follow(start, _next, _KINDS, partial(self.may_set_mode, model))
        return Modes(start, assumptions, flow)

    def may_set_mode(self, model: Value, event: Event) -> bool:
        """Whether an event is a call of a module, sets its mode, or may set it out of sight."""
        if isinstance(event, ModeChange):
            return any(owner is model or self.reaches(owner, model) for owner in self.objects(event.model))
        if isinstance(event, OpaqueCall):
            on_tensor = event.name.endswith("_")  # in place, on a parameter
            return not on_tensor and self.opaque_to(event, model)
        return isinstance(event, ModelForward) and self.is_same(event.model, model)

    def _start(self, model: Value, calls: tuple[ModelForward, ...]) -> tuple[Mode, Assumptions]:
        """The mode of a module before anything sets it: what the program makes starts in training mode."""
        if isinstance(model, Instance):
            return ("unknown" if model.library_name.endswith(_READY_MADE) else "train"), ()
        if not isinstance(model, Symbol):
            return "unknown", ()
        name = self.name_of(model)
        if model.name in ("call", "item"):
            return "train", (Assumption("opaque", f"`{name or 'the model'}` is in training mode where it is made"),)
        if model.name in ("parameter", "attribute") and calls and self._is_left_training(str(model.detail), calls[0]):
            return "train", (Assumption("entry", f"`{name}` is handed over in the mode that training has left it in"),)
        return "unknown", ()

    def _is_left_training(self, name: str, call: ModelForward) -> bool:
        """Whether the file that is handed a module trains it, and none that uses this function sets another mode."""
        here: Any = call.site.module
        if not any(module is here and module.calls.get("backward") for module, _ in self.trees("backward")):
            return False
        if True not in _modes_set(here, name) or False in _modes_set(here, name):
            return False
        definition = call.frame.definition
        callers = self.callers(definition) if definition is not None else []
        return not any(False in _modes_set(caller.module, name) for caller in callers)


def _modes_set(module: Any, name: str) -> set[bool | None]:
    """The modes to which a file sets something of a name: ``None`` for one that is computed."""
    calls = [*module.method_calls.get("train", ()), *module.method_calls.get("eval", ())]
    return {_mode_set(call) for call in calls if _last_name(call.func.value) == name}


def _last_name(node: ast.expr) -> str:
    """The ``model`` of ``self.model``."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _mode_set(call: ast.Call) -> bool | None:
    """The mode that ``x.train()``, ``x.train(False)`` or ``x.eval()`` sets; ``None`` where it is not written there."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    if not given:
        return isinstance(call.func, ast.Attribute) and call.func.attr == "train"
    value = given[0].value if isinstance(given[0], ast.Constant) else None
    return value if isinstance(value, bool) else None


def _next(event: Event, state: Mode) -> Mode:
    if isinstance(event, ModeChange):
        return "unknown" if event.training is None else "train" if event.training else "eval"
    return "unknown" if isinstance(event, OpaqueCall) else state
