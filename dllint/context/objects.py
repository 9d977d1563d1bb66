"""What the values and objects of a program are, and which others they lead to."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from itertools import islice
from typing import Any

from dllint.assumptions import Assumption, Assumptions
from dllint.context.naming import Naming
from dllint.events import AttributeAssigned, Event, LibraryCall, ModeChange
from dllint.interp.ask.gradients import Gradient, gradient_of, passes_none_on
from dllint.interp.ask.ignored import Mark, marks_in
from dllint.interp.ask.norms import has_batch_norm, has_norm, layers_in, normalizes_vectors
from dllint.interp.ask.numbers import NumberKind, number_kind
from dllint.interp.ask.origins import Origin, origins
from dllint.interp.ask.padding import Padding, padding_of
from dllint.interp.ask.sensitivity import Sensitivity, has_unknown_layers, sensitivity_of
from dllint.interp.run import classes, graph, names, roles
from dllint.interp.run.modules import HEADS
from dllint.interp.source.facts import Facts
from dllint.terms import Framework, Role, TensorKind
from dllint.values import Class, Const, Function, Instance, ModuleReference, Setting, Symbol, Value

_PARTS = ("attribute", "item", "element")
_MAX_BETWEEN = 60
MANAGED = frozenset(("hf-trainer", "fastai", "mmengine"))


class Objects(Naming):
    """Constants, tensors, objects and the roles that objects play."""

    def constant(self, value: Value | None) -> Any:
        """The Python constant a value is (also by default, for a setting), or ``None`` when it is not one."""
        if isinstance(value, Setting):
            value = value.default
        return value.value if isinstance(value, Const) else None

    def is_none(self, value: Value | None) -> bool:
        """Whether a value is the constant ``None``."""
        return isinstance(value, Const) and value.value is None

    def is_setting(self, value: Value | None) -> bool:
        """Whether a value is only the default of something the user may set."""
        return isinstance(value, Setting)

    def origins(self, value: Value) -> list[Origin]:
        """Where a tensor's numbers come from (see :func:`dllint.interp.ask.origins.origins`)."""
        return origins(self._machine, value)

    def kind(self, value: Value) -> TensorKind:
        """``probabilities``, ``log-probabilities``, ``logits``, or an empty string: what an operation returns."""
        if not isinstance(value, Symbol):
            return ""
        return self.facts.returns.get(value.name, "") or ("logits" if _is_of_classifier(self.facts, value) else "")

    def gradient(self, value: Value) -> Gradient:
        """Whether a value carries gradients back to parameters, and where they were cut off."""
        return gradient_of(self._machine, value)

    def number_kind(self, value: Value | None) -> NumberKind:
        """``integer``, ``floating``, ``boolean``, or an empty string: the numbers that a tensor certainly holds."""
        return number_kind(self._machine, value)

    def marks_in(self, target: Value) -> list[Mark]:
        """The numbers (below 0, or 255) that labels are set to, to be left out, if they reach a value unchanged."""
        return marks_in(self._machine, target)

    def padding(self, value: Value) -> Padding | None:
        """Where the sequences of a batch were padded to one length, if the padding reaches a value unchanged."""
        return padding_of(self._machine, value)

    def sources(self, value: Value) -> Iterator[Value]:
        """The value and everything it was computed from, nearest first."""
        return graph.sources(value)

    def sources_up_to(self, value: Value, is_end: Callable[[Value], bool]) -> Iterator[Value]:
        """The value and what it was computed from, nearest first, but not what is an end and what that is made of."""
        pending, seen = [value], set[int]()
        for current in pending:  # which grows meanwhile
            if id(current) not in seen and not is_end(current) and len(seen) < _MAX_BETWEEN:
                seen.add(id(current))
                yield current
                pending.extend(graph.inputs_of(current))

    def argument(self, symbol: Symbol | Instance, position: int | None, name: str) -> Value | None:
        """An argument of the call that made a value."""
        return symbol.arguments.get(position, name) if symbol.arguments is not None else None

    def role(self, value: Value) -> Role:
        """``optimizer``, ``scheduler``, ``scaler``, ``loader``, ``module``, …, as far as it is known."""
        return classes.role_of(self._machine, value)

    def guessed_role(self, value: Value) -> Role:
        """The role of a value, guessed from its name where nothing is known."""
        return roles.known_or_guessed(self._machine, value)

    def class_name(self, value: Value) -> str:
        """The name of an instance's class, without its module."""
        if not isinstance(value, Instance):
            return ""
        return value.cls.name if isinstance(value.cls, Class) else value.cls.rpartition(".")[2]

    def objects(self, value: Value | None) -> list[Value]:
        """The objects a value may be, behind wrappers such as ``DataParallel``."""
        return graph.objects(self._machine, value)

    def options_of(self, value: Value) -> list[Origin]:
        """The objects a value may be, behind wrappers, each with the conditions under which it is the one."""
        return [Origin(each, guards, ()) for guards, each in graph.objects_under(self._machine, value)]

    def is_same(self, left: Value | None, right: Value | None) -> bool:
        """Whether two values may be the same object."""
        return not self._identities_of(left).isdisjoint(self._identities_of(right))

    def reaches(self, start: Value, target: Value) -> bool:
        """Whether an object can be got at from a value."""
        return not self._identities_of(target).isdisjoint(self._reach_of(start))

    def _reach_of(self, start: Value) -> frozenset[int]:
        """The identities of all that can be got at from a value."""
        known = self._reach.get(id(start))
        if known is None:  # the value is kept, so that no other one gets its identity
            known = self._reach[id(start)] = (graph.reach(self._machine, start), start)
        return known[0]

    def _identities_of(self, value: Value | None) -> frozenset[int]:
        """The identities of the objects that a value may be."""
        known = self._identities.get(id(value))
        if known is None:
            known = self._identities[id(value)] = (frozenset([id(each) for each in self.objects(value)]), value)
        return known[0]

    def is_mode_sensitive(
        self, model: Value, *, in_doubt: bool = True, as_loaded: bool = False, beside: Sequence[Value] = ()
    ) -> bool:
        """Whether a module behaves differently in training and evaluation mode.

        Of a network whose class is known that must be known, too; of others, ``in_doubt`` is the answer. ``as_loaded``
        says that nobody has set the mode of the whole: parts that ``from_pretrained`` returned, and those that the
        program has put there, are in evaluation mode then. ``beside`` are parts that do not count, as their mode is set
        by itself.
        """
        answer = self._sensitivity_of(model, as_loaded=as_loaded, beside=beside)
        if answer is not Sensitivity.UNKNOWN:
            return answer is not Sensitivity.NONE
        if isinstance(model, Symbol) and model.name in ("call", "item"):  # what a call made of modules
            parts = [
                part for part in graph.sources(model) if isinstance(part, Instance) and self.role(part) == "module"
            ]
            if parts:
                return any(self._sensitivity_of(part) > Sensitivity.UNKNOWN for part in parts)
        return in_doubt and not isinstance(model, Instance)

    def _sensitivity_of(self, model: Value, *, as_loaded: bool = False, beside: Sequence[Value] = ()) -> Sensitivity:
        switched = self._switched_off() if as_loaded else frozenset[int]()
        switched = switched.union(*map(self._identities_of, beside)) - self._identities_of(model)
        assigned = self.all_of(AttributeAssigned)
        return sensitivity_of(self._machine, model, assigned, as_loaded=as_loaded, switched=switched)

    def _switched_off(self) -> frozenset[int]:
        """The modules, by identity, that are put into evaluation mode by themselves, and never into training mode."""
        changes = [*self._machine.modes_of_files, *self.all_of(ModeChange)]
        targets = [(id(each), change.training) for change in changes for each in self.objects(change.model)]
        return frozenset(each for each, mode in targets if mode is False) - {each for each, mode in targets if mode}

    def has_unknown_layers(self, model: Value) -> bool:
        """Whether a model of the project calls layers that were made by something unresolved, or derives from it."""
        return has_unknown_layers(self._machine, model)

    def assumed_sensitivity(self, model: Value, *, is_switched: bool = False) -> Assumptions:
        """What is assumed by whoever takes a module to depend on the mode, where no layer of it is known to do.

        Of a module whose mode the program sets to and fro, ``is_switched``, words in its code are enough.
        """
        found = self._sensitivity_of(model) if isinstance(model, Instance) else Sensitivity.KNOWN
        name = self.class_name(model) or "the model"
        text = f"`{name}` has layers that depend on the mode"
        if found is Sensitivity.OFF:
            return (Assumption("effect", f"{text}, as it has with other settings than those of the project"),)
        if is_switched or found in (Sensitivity.KNOWN, Sensitivity.UNKNOWN):
            return ()
        if found is Sensitivity.UNTOLD:
            return (Assumption("effect", f"{text}: a rate of dropout that nothing here tells is not zero"),)
        is_named = found is Sensitivity.BUILT  # else the words may be about anything
        return (Assumption("name" if is_named else "effect", f"{text}, as words in its code say"),)

    def has_batch_norm(self, model: Value) -> bool:
        """Whether a module certainly has a batch norm that keeps running statistics."""
        return has_batch_norm(self._machine, model)

    def option_with_batch_norm(self, model: Value) -> Setting | None:
        """The option that names the network which a model is, `models.get_model(args.arch)`, if that of its default has
        batch norms."""
        name = self.argument(model, 0, "name") if isinstance(model, Instance) and model.library_name else None
        if not isinstance(name, Setting) or not isinstance(model, Instance):
            return None
        return name if self.facts.has_batch_norms(f"{model.library_name}:{self.constant(name)}") else None

    def layers_in(self, model: Value) -> frozenset[str]:
        """The library classes of the layers in a module and of what wraps them, as far as they are certain."""
        return layers_in(self._machine, model)

    def normalizes_vectors(self, model: Value) -> bool:
        """Whether a module certainly has a batch norm of vectors: each sample gives one value for a channel."""
        return normalizes_vectors(self._machine, model)

    def has_norm(self, model: Value) -> bool:
        """Whether a module certainly has a normalization with a scale of its own."""
        return has_norm(self._machine, model)

    def library_bases(self, value: Value) -> tuple[str, ...]:
        """The library classes that an instance's class derives from (or is)."""
        if not isinstance(value, Instance):
            return ()
        return value.cls.library_bases if isinstance(value.cls, Class) else (value.cls,)

    def member(self, value: Value, name: str) -> Function | None:
        """The method that a class of the project (or a project ancestor) defines for an instance."""
        if not isinstance(value, Instance) or not isinstance(value.cls, Class):
            return None
        found = classes.find_member(self._machine, value.cls, name)
        return found if isinstance(found, Function) else None

    def function_called(self, call: ast.Call, within: Function) -> Function | None:
        """The function of the project, or method of an object of it, that a call in the body of another one calls.

        It is what the name stands for when the program is over. Where the function binds the name itself, none is told.
        """
        called = call.func
        name = called.value if isinstance(called, ast.Attribute) else called
        if not isinstance(name, ast.Name) or name.id in _bound_in(within.node):
            return None
        found = names.lookup(self._machine, name.id, within.scope)
        if isinstance(called, ast.Attribute) and isinstance(found, ModuleReference):
            found = names.global_name(self._machine, called.attr, found.module)
        elif isinstance(called, ast.Attribute):
            return self.member(found, called.attr)
        return found if isinstance(found, Function) else None

    def models_behind(self, value: Value, *, with_gradients: bool = False) -> list[Value]:
        """The modules whose forward passes a value was computed with; if asked so, only those with gradients on, and of
        which nothing cuts the gradients off, as ``detach`` does, or `torch.ones_like`, which takes the shape alone."""
        key = (id(value), with_gradients)
        known = self._behind.get(key)
        if known is None:
            known = []
            is_end = partial(passes_none_on, self._machine) if with_gradients else None
            for source in graph.sources(value, is_end=is_end):
                if (
                    isinstance(source, Symbol)
                    and source.inputs
                    and not (with_gradients and source.grad == "off")
                    and (
                        source.name in ("forward", "call")
                        or (source.name.startswith("torch.nn.") and source.name.endswith("()"))
                    )
                ):
                    known.extend(m for m in self.objects(source.inputs[0]) if not any(m is other for other in known))
            self._behind[key] = known
        return known

    def names_behind(self, value: Value) -> list[str]:
        """The names of a value and of what it was made from (``val_loader`` behind ``enumerate(val_loader)``)."""
        return [name for source in islice(graph.sources(value), 12) if (name := roles.name_of(source))]

    def library_calls(self, name: str) -> list[LibraryCall]:
        """The calls of a library function or class in the program."""
        return [event for event in self.all_of(LibraryCall) if event.name == name]

    def is_part(self, part: Value, module: Value) -> bool:
        """Whether an object is a module or belongs to it, as ``model.encoder`` does to ``model``."""
        while isinstance(part, Symbol) and part.name in _PARTS and part.inputs:
            if self.is_same(part, module):
                return True
            part = part.inputs[0]  # model.encoder.layers[0] of a model that is not known
        if self.is_same(part, module):
            return True
        leads_up = isinstance(module, Symbol) and module.name in _PARTS
        return not leads_up and self.reaches(module, part)

    def framework(self, event: Event) -> Framework:
        """The framework under whose loop an event happens, or an empty string."""
        return event.frame.framework

    def is_managed(self, event: Event) -> bool:
        """Whether a framework runs the training loop here: it clears, steps, accumulates and schedules by itself.

        Lightning's manual optimization leaves these to the user.
        """
        if event.frame.framework == "lightning":
            return not self._manual_optimization
        return event.frame.framework in MANAGED

    @cached_property
    def _manual_optimization(self) -> bool:
        return any(
            event.attribute == "automatic_optimization" and self.constant(event.value) is False
            for event in self.all_of(AttributeAssigned)
        )


def _is_of_classifier(facts: Facts, value: Symbol) -> bool:
    """Whether a value is the output of a library's classifier that still has its own head."""
    model = value.inputs[0] if value.name == "forward" and value.inputs else None
    if not isinstance(model, Instance) or not facts.is_classifier(model.library_name):
        return False
    return not any(name in model.attributes for name in HEADS)


def _bound_in(function: ast.AST) -> set[str]:
    """The names that a function binds: its parameters, and whatever is stored or defined anywhere in it."""
    found = {each.arg for each in ast.walk(function) if isinstance(each, ast.arg)}
    found |= {each.id for each in ast.walk(function) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    inside = (each for each in ast.walk(function) if each is not function)
    return found | {each.name for each in inside if isinstance(each, ast.FunctionDef | ast.ClassDef)}
