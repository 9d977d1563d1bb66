"""In which mode a module is: training, evaluation, or one that is not known."""

from __future__ import annotations

import ast
from typing import Literal

from dllint.assumptions import Assumption, Assumptions
from dllint.context.phases import Phases
from dllint.context.sources import Sources
from dllint.dataclass import dataclass
from dllint.events import Event, Frame, ModeChange, ModelForward, OpaqueCall
from dllint.flow import Flow
from dllint.interp.ask.registered import is_hidden_in
from dllint.interp.run.copies import COPY_OF
from dllint.interp.run.guards import consistent
from dllint.sites import Module
from dllint.values import Class, Instance, Symbol, Value

Mode = Literal["train", "eval", "unknown"]
State = Literal["start", "train", "eval", "unknown"]  # with ``start`` for what a module has before anything sets it

_KINDS = (ModelForward, ModeChange, OpaqueCall)
_PARTS = frozenset(("children", "named_children", "modules", "named_modules"))
_READY_MADE = ("from_pretrained", "from_config", "hub.load")  # come in evaluation mode, or in one not known


@dataclass(frozen=True, slots=True)
class Modes:
    """The modes of one module on all paths. ``start`` is the one it has before the program sets any."""

    start: Mode
    of_start: Assumptions
    flow: Flow[State]

    def at(self, event: ModelForward) -> set[Mode]:
        """The modes in which a call of the module finds it; none where it is not called there."""
        return {self.start if state == "start" else state for state in self.flow.arrivals.get(event, ())}

    def is_as_made_at(self, event: ModelForward) -> bool:
        """Whether nothing has set the mode before a call of the module."""
        return set(self.flow.arrivals.get(event, ())) == {"start"}

    def assumptions_at(self, event: ModelForward) -> Assumptions:
        """What that takes for granted: nothing where the program has set the mode before."""
        return self.of_start if "start" in self.flow.arrivals.get(event, ()) else ()


class ModesOfModules(Phases, Sources):
    """The modes of the modules of a program."""

    def modes(self, model: Value, calls: tuple[ModelForward, ...] = ()) -> Modes:
        """In which modes a module is called.

        Args:
            model: the module.
            calls: the calls that are in question, of it or of what it is a part of; by them the mode of a module that
                is handed in is told.
        """
        start, assumptions = self._start(model, calls)

        def step(event: Event, state: State) -> State:
            return self._mode_of(model, event, calls, state)

        flow: Flow[State] = self.follow("start", step, _KINDS, lambda e: e in calls or self.may_set_mode(model, e))
        return Modes(start, assumptions, flow)

    def _mode_of(self, model: Value, event: Event, calls: tuple[ModelForward, ...], state: State) -> State:
        """The mode of a module after an event that may set it."""
        if isinstance(event, OpaqueCall):
            return "unknown"
        if not isinstance(event, ModeChange):
            return state
        ways = [way for way in self.options_of(event.model) if self._passes_mode_on(way.value, model)]
        if calls and not any(consistent(way.guards, call.guards) for way in ways for call in calls):
            return state  # where the module is called, something else is put into the mode
        if all(_may_be_another(way.value, model) for way in ways):
            return "unknown"
        return "unknown" if event.training is None else "train" if event.training else "eval"

    def is_called_as_model(self, event: ModelForward, model: Value) -> bool:
        """Whether what is called is a model, as far as its class, or else its name, tells."""
        if isinstance(model, Instance):
            return self.role(model) != "loss-class"
        if isinstance(event.site.node, ast.Call) and isinstance(event.site.node.func, ast.Call):
            return False  # what `get_model(name)(config)` calls is a class
        return any(self.guessed_role(value) in ("module", "wrapper") for value in (model, event.model))

    def callee_of(self, event: ModelForward) -> str:
        """What is called, as it is written, where that is a name or an attribute; else an empty string."""
        function = event.site.node.func if isinstance(event.site.node, ast.Call) else None
        if not isinstance(function, ast.Name | ast.Attribute):
            return ""
        return ast.unparse(function).removesuffix(".forward")

    def is_inside_model(self, event: ModelForward, model: Value) -> bool:
        """Whether a module is called as a part of a model, or by its constructor, so that the caller of that decides
        about its mode and its gradients."""
        frames = list(event.frame.stack())
        if any(frame.function in ("forward", "__init__") for frame in frames):
            return True
        wholes = (frame.receiver for frame in frames if frame.receiver is not None and self.is_module(frame.receiver))
        return any(whole is not model and self.is_part(model, whole) for whole in wholes)

    def used_through(self, event: ModelForward) -> Frame | None:
        """The call of a method of a module, as `vae.encode(x)`, in which one of its parts is called.

        ``None`` where no such method is called, and where one is the `forward` or the constructor of a module, so that
        the part is called as the module is.
        """
        outer = [frame for frame in event.frame.stack() if frame.receiver and self.is_module(frame.receiver)]
        if not outer or any(frame.function in ("forward", "__init__") for frame in event.frame.stack()):
            return None
        return outer[-1] if outer[-1].call is not None and outer[-1].caller is not None else None

    def may_set_mode(self, model: Value, event: Event) -> bool:
        """Whether an event is a call of a module, sets its mode, or may set it out of sight."""
        if isinstance(event, ModeChange):
            owners = self.objects(event.model)
            return any(self._passes_mode_on(owner, model) for owner in owners)
        if isinstance(event, OpaqueCall):
            on_tensor = event.name.endswith("_")  # in place, on a parameter
            return not on_tensor and self.opaque_to(event, model)
        return isinstance(event, ModelForward) and self.is_same(event.model, model)

    def is_ever_put_into_evaluation(self, model: Value, since: Event) -> bool:
        """Whether the program puts a module, or what it is a part of, into evaluation mode after an event, or into one
        that it computes."""
        changes = (each for each in self.all_of(ModeChange) if each.training is not True)
        return any(self.position(each) > self.position(since) and self.may_set_mode(model, each) for each in changes)

    def is_called_later(self, model: Value, event: Event) -> bool:
        """Whether an event is in a function that is handed to code which is not seen, as a step to an engine that runs
        it later, and the module is put into evaluation mode after that."""
        is_handed = any(_is_handed_on(frame) for frame in event.frame.stack())
        return is_handed and self.is_ever_put_into_evaluation(model, event)

    def assumed_meant_for_evaluation(self, model: Value, event: ModelForward) -> Assumptions:
        """What is assumed of a generator by who takes it to be meant for evaluation mode, where no code of the project
        puts one into it: many are to make samples as in training, by the statistics of a batch or with dropout."""
        is_own = isinstance(model, Instance) and isinstance(model.cls, Class)
        names = [self.class_name(model)] if is_own else [self.name_of(model), self.callee_of(event)]
        if not self.speaks_of("generator", *names):
            return ()
        if any(True for _ in self.method_calls("eval", about="generator", everywhere=True)):
            return ()
        text = f"`{next(filter(None, names))}` is to generate in evaluation mode, into which no code puts a generator"
        return (Assumption("effect", text),)

    def is_put_back_into_training(self, model: Value, call: ModelForward) -> bool:
        """Whether the code before a call puts the whole of a model into evaluation mode, and at once a part of it back:
        `net.eval()`, `net.decoder.train()`."""
        changes = [each for each in self.all_of(ModeChange) if self.position(each) < self.position(call)]
        parts = [each for each in changes if each.training is True and self.is_same(each.model, model)]
        others = [each for each in changes if each.training is False and not self.is_same(each.model, model)]
        wholes = [each for each in others if self.is_part(model, each.model)]
        between = [self.position(each) for each in self.all_of(ModelForward)]
        return any(
            whole.frame is part.frame
            and self.position(whole) < self.position(part)
            and not any(self.position(whole) < each < self.position(part) for each in between)
            for whole in wholes
            for part in parts
        )

    def _passes_mode_on(self, owner: Value, model: Value) -> bool:
        """Whether a module, when its mode is set, may set that of another, which is the same or belongs to it."""
        if owner is model:
            return True
        return self.reaches(owner, model) and not _is_copy(owner) and not is_hidden_in(self._machine, owner, model)

    def _start(self, model: Value, calls: tuple[ModelForward, ...]) -> tuple[Mode, Assumptions]:
        """The mode of a module before the program sets any: what it makes starts in training mode, unless the top level
        of the file that makes it, which was run before, sets another."""
        if isinstance(model, Instance):
            for change in reversed(self._machine.modes_of_files):
                if self.may_set_mode(model, change):
                    return _mode_after(change), ()
            is_told = not model.library_name.endswith(_READY_MADE) and not self._has_parts_in_other_modes(model)
            return ("train" if is_told else "unknown"), ()
        if not isinstance(model, Symbol):
            return "unknown", ()
        name = self.name_of(model)
        if model.name in ("call", "item"):
            return "train", (Assumption("opaque", f"`{name or 'the model'}` is in training mode where it is made"),)
        if model.name in ("parameter", "attribute") and calls and self._is_left_training(str(model.detail), calls[0]):
            return "train", (Assumption("entry", f"`{name}` is handed over in the mode that training has left it in"),)
        return "unknown", ()

    def _has_parts_in_other_modes(self, container: Instance) -> bool:
        """Whether a container is made of parts of a module whose mode the program sets: they keep that mode."""
        sources = (source for given in container.arguments.all() for source in self.sources(given))
        lists = (each for each in sources if isinstance(each, Symbol) and each.name in _PARTS and each.inputs)
        owners = [each.inputs[0] for each in lists]
        changes = self.all_of(ModeChange) if owners else ()
        return any(self.may_set_mode(owner, change) for owner in owners for change in changes)

    def _is_left_training(self, name: str, call: ModelForward) -> bool:
        """Whether the file that is handed a module trains it, and none that uses this function sets another mode."""
        here = call.site.module
        set_here = self.modes_set(here, name)
        if True not in set_here or False in set_here or not here.method_calls.get("backward"):
            return False
        definition = call.frame.definition
        callers = self.callers(definition) if definition is not None else []
        return not any(False in _modes_set(caller.module, name) for caller in callers)

    def modes_set(self, module: Module, name: str = "") -> set[bool | None]:
        """The modes to which a file sets something of a name, or anything: true for training, ``None`` if computed.

        It is that of the program, or one that it imports.
        """
        is_own = module in self._machine.project.closure(self.program.module)
        return _modes_set(module, name) if is_own else set()


def _is_handed_on(frame: Frame) -> bool:
    """Whether a function runs as an argument of a call, which may keep it for later."""
    call = frame.call.node if frame.call is not None else None
    if not isinstance(call, ast.Call) or frame.definition is None:
        return False
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(each is frame.definition.node or _last_name(each) == frame.function for each in given)


def _is_copy(value: Value) -> bool:
    """Whether an object is a copy of another, which does not change with it."""
    return isinstance(value, Instance) and COPY_OF in value.attributes


def _may_be_another(owner: Value, model: Value) -> bool:
    """Whether an object is what unseen code returned for several, as `better_of(average, model)`: any of these."""
    given = owner.inputs if isinstance(owner, Symbol) and owner is not model else ()
    return any(isinstance(each, Instance) and isinstance(each.cls, Class) and each is not model for each in given)


def _modes_set(module: Module, name: str) -> set[bool | None]:
    """The same of any file."""
    calls = [*module.method_calls.get("train", ()), *module.method_calls.get("eval", ())]
    return {_mode_set(call) for call in calls if _is_of(call, name)}


def _is_of(call: ast.AST, name: str) -> bool:
    """Whether a method is called of something of a name: ``self.model.eval()`` of ``model`` and of ``self.model``."""
    owner = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    return not name or (owner is not None and _last_name(owner) == name.rpartition(".")[2])


def _last_name(node: ast.expr) -> str:
    """The ``model`` of ``self.model``."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _mode_set(call: ast.AST) -> bool | None:
    """The mode that ``x.train()``, ``x.train(False)`` or ``x.eval()`` sets; ``None`` where it is not written there."""
    assert isinstance(call, ast.Call)
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    if not given:
        return isinstance(call.func, ast.Attribute) and call.func.attr == "train"
    value = given[0].value if isinstance(given[0], ast.Constant) else None
    return value if isinstance(value, bool) else None


def _mode_after(change: ModeChange[Value]) -> Mode:
    """The mode that a change which may not happen leaves a module in."""
    return "unknown" if change.guards or change.training is None else "train" if change.training else "eval"
