"""What a claim takes for granted, read off the things that it rests on."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from functools import cached_property
from itertools import islice
from typing import Any

from dllint.assumptions import Assumption, Assumptions, union
from dllint.choices import Choice
from dllint.context.decisions import Decisions
from dllint.context.options import assumed_of_options
from dllint.context.uses import Uses
from dllint.events import (
    AttributeAssigned,
    Event,
    LossCall,
    ModelForward,
    OpaqueCall,
    OptimizerStep,
    SchedulerStep,
    ZeroGrad,
)
from dllint.forms import described
from dllint.interp.ask.origins import Origin
from dllint.interp.run import classes, graph, roles
from dllint.interp.run.guards import consistent
from dllint.interp.source.given_arguments import is_always_given
from dllint.interp.source.positions import ancestors
from dllint.interp.source.topics import speaks_of
from dllint.sites import Guard, Guards, Site
from dllint.structure import Loop
from dllint.values import Const, Instance, Setting, Symbol, Value

_ROLES = {"optimizer": "an optimizer", "scheduler": "a learning-rate scheduler", "scaler": "a gradient scaler"}
_ACTORS = frozenset((*_ROLES, "model", "criterion", "loader", "dataset", "composition", "target"))
_NAMED = frozenset(("parameters", "state"))  # of an optimizer, and what is loaded into something
_LEFT_OUT = {LossCall: ("result", "target"), AttributeAssigned: ("value",)}
_LOOKUPS = frozenset((".get", ".pop", ".setdefault"))
_MAX_SOURCES = 60
_LEAVING = frozenset(("resize_token_embeddings", "gradient_checkpointing_enable", "gradient_checkpointing_disable"))
_ENDS = frozenset(("state_dict", "counter", "torch.load"))
_MAX_BEHIND = 80
_PREPARING = ("Tokenizer", "Processor", "FeatureExtractor")
_COMPUTED = frozenset(("input", "loss"))
_MAX_STEPS = 40
_CONSTANT = frozenset(
    f"{package}.{name}" for package in ("torch", "numpy") for name in ("zeros", "ones", "empty", "full", "arange")
)
_SHAPED = ("view", "view_as", "reshape", "reshape_as", "expand", "expand_as", "unflatten")
_PLACED = frozenset((".to", ".cuda", "torch.reshape", "torch.unflatten", *(f".{name}" for name in _SHAPED)))
_DRAWN = ("rand", "randn", "randint", "normal")
_MADE = _CONSTANT.union(
    *((f"torch.{name}", f"numpy.random.{name}") for name in _DRAWN), ("numpy.random.random", "numpy.random.uniform")
)


_OF_MODULES = ("forward", "__init__")  # the methods in which a module calls its parts

_ON_MADE_UP = Assumption("effect", "somebody trains on these numbers, which are made up on the spot")


class Assuming(Decisions, Uses):
    """The assumptions behind events, values and conditions."""

    def assumptions_of(self, *evidence: Any) -> Assumptions:
        """What is assumed by a claim that rests on some evidence, each thing once.

        Evidence is an event, value, origin, loop, condition or assumption, a sequence of these, or anything else that
        has ``assumptions`` of its own; ``None`` is no evidence.
        """
        return union(*(self._assumed(each) for each in evidence))

    def _assumed(self, evidence: Any) -> Iterable[Assumption]:
        if evidence is None:
            return ()
        if isinstance(evidence, Assumption):
            return (evidence,)
        if isinstance(evidence, tuple | list):
            return self.assumptions_of(*evidence)
        if isinstance(evidence, Event):
            return self._behind_event(evidence)
        if isinstance(evidence, Origin):
            return _behind_guards(evidence.guards)
        if isinstance(evidence, Guard):
            return _behind_guards((evidence,))
        if isinstance(evidence, Loop):  # which numbers it goes over does not matter to a claim about what happens in it
            return self._assumed(evidence.iterable) if self.goes_over_data(evidence) else ()
        if isinstance(evidence, Value):
            return self._behind_value(evidence)
        return evidence.assumptions  # type: ignore[no-any-return]

    def _behind_event(self, event: Event) -> Iterator[Assumption]:
        yield from _behind_guards(event.guards)
        yield from self._behind_circumstances(event)
        for name, value in _parts_of(event):
            if name not in _NAMED:  # which matter to few claims: those name them
                yield from assumed_of_options(value, f"the {name}")
            if name in _ROLES:
                yield from self._behind_role(value, name)
            if name in _ACTORS:
                yield from self._behind_opaque(event, value)
            elif name in _COMPUTED:
                for guards, model in _models_behind(value):
                    yield from self._behind_opaque(event, model, guards)
        if isinstance(event, ModelForward) and _is_probed(event):
            yield _ON_MADE_UP

    def _behind_circumstances(self, event: Event) -> Iterator[Assumption]:
        """That what happens is part of training: nobody measures its speed, and somebody uses what is computed."""
        yield from self.is_training(frame.function for frame in event.frame.stack())
        for frame in event.frame.stack():
            if frame.definition is not None and self._tries_out(frame.definition):
                yield Assumption("effect", f"`{frame.function}` trains, and does not only try out its file")
        if isinstance(event, LossCall) and not self.is_used(event.result):
            yield Assumption("effect", "somebody uses the loss")

    def is_training(self, names: Iterable[str]) -> Iterator[Assumption]:
        """That code trains: none of the functions it belongs to, nor the file, speaks of a benchmark."""
        if any(speaks_of("benchmark", name) for name in (*names, self.program.module.file.stem)):
            yield Assumption("effect", "this is training, and no measurement of speed as its name says")

    def _tries_out(self, definition: Site) -> bool:
        """Whether a function tries out its own file, which others import, as `test_model()` below a main guard does."""
        node = definition.node
        if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
            return False
        given, project = node.args, self._machine.project
        needs_something = len(given.posonlyargs) + len(given.args) > len(given.defaults) or bool(given.kwonlyargs)
        own = re.compile(rf"\b{re.escape(definition.module.name.rpartition('.')[2])}\b")
        return not needs_something and any(
            definition.module in project.imported_by(module) for module in project.mentioning(own)
        )

    def left_alone(self, event: Event, value: Value) -> Assumptions:
        """What is assumed of an object at an event by who takes it to be as it was: that no code changed it unseen."""
        return tuple(self._behind_opaque(event, value))

    def _behind_opaque(self, event: Event, value: Value, under: Guards = ()) -> Iterator[Assumption]:
        """That code which could not be followed, and had something before, left it as it was.

        ``under`` are conditions under which alone the event is about the value.
        """
        position = self._order.get(id(event))
        for guards, option in graph.objects_under(self._machine, value):
            for call in self._opaque_calls.get(id(option), ()):
                name = call.name.rpartition(".")[2]
                if position is None or self._order[id(call)] >= position or _only_reads(name):
                    continue
                if not name and call.receiver is None and option.site is not None and option.site is call.site:
                    continue  # it made the object, of a class that is one of many; it is no base class's constructor
                is_of_another = not consistent(call.guards, under + guards) or self.never_both(event, call)
                if not is_of_another:
                    caller = f"`{name}`" if name else "a call that could not be followed"
                    what = roles.name_of(option) or described(option).strip("`")
                    yield Assumption("opaque", f"{caller} leaves `{what}` as it is")
                    return

    def assumed_of_computation(self, value: Value, is_end: Callable[[Value], bool]) -> Iterator[Assumption]:
        """What is assumed by whoever takes a value to be computed from something.

        That calls which could not be followed return what they are given, and that what is one of several is none of
        those that could not be resolved.

        Args:
            value: what is computed.
            is_end: tells what it is computed from. What that is made from itself does not matter.
        """
        pending = [value]
        for current in islice(pending, _MAX_STEPS):  # which grows meanwhile
            if is_end(current):
                continue
            yield from assumed_of_options(current, "the value")
            if isinstance(current, Symbol) and (current.name == "call" or current.name.startswith(".")):
                name = current.name.removeprefix(".") if current.name != "call" else ""
                caller = f"`{name}`" if name else "a call that could not be followed"
                yield Assumption("opaque", f"{caller} returns what it is given")
            pending.extend(graph.inputs_of(current))

    @cached_property
    def _order(self) -> dict[int, int]:
        return {id(event): number for number, event in enumerate(self._structure.events)}

    @cached_property
    def _opaque_calls(self) -> dict[int, list[OpaqueCall]]:
        """The calls that could not be followed, by the identity of each object that they were handed."""
        found: dict[int, list[OpaqueCall]] = {}
        for event in self._structure.all_of(OpaqueCall):
            assert isinstance(event, OpaqueCall)
            for given in (*event.values, *([event.receiver] if event.receiver is not None else ())):
                for each in graph.objects(self._machine, given):
                    found.setdefault(id(each), []).append(event)
        return found

    def made_up(self) -> Iterator[Assumption]:
        """That numbers which are drawn or made on the spot stand for data: that somebody trains on them."""
        if self._is_made_up:
            yield _ON_MADE_UP

    def made_up_of(self, *values: Value) -> Iterator[Assumption]:
        """That numbers which are drawn or made on the spot, and nothing else, stand for data where values come from."""
        if _is_made(values, _MADE):
            yield _ON_MADE_UP

    @cached_property
    def _is_made_up(self) -> bool:
        forwards = [event for event in self._structure.all_of(ModelForward) if isinstance(event, ModelForward)]
        outermost = [
            event for event in forwards if not any(frame.function in _OF_MODULES for frame in event.frame.stack())
        ]
        return _is_made([each for event in outermost or forwards for each in event.arguments.all()], _MADE)

    def _behind_role(self, value: Value | None, role: str) -> Iterator[Assumption]:
        """That something is what it is called: nothing else tells so, and nothing that is done with it proves it."""
        for option in graph.objects(self._machine, value):
            known = classes.role_of(self._machine, option) or roles.role_by_method(option)
            if isinstance(option, Symbol) and not known and not self._acts(option):
                name = roles.name_of(option) or "it"
                yield Assumption("name", f"`{name}` is {_ROLES[role]}, as its name says")

    def _acts(self, value: Value) -> bool:
        """Whether something is used as only an optimizer is: it takes steps, and clears gradients."""
        return id(value) in self._stepped and id(value) in self._cleared

    @cached_property
    def _stepped(self) -> frozenset[int]:
        steps = self._structure.all_of(OptimizerStep, SchedulerStep)
        return frozenset(
            id(each)
            for step in steps
            if isinstance(step, OptimizerStep)
            for each in graph.objects(self._machine, step.optimizer)
        )

    @cached_property
    def _cleared(self) -> frozenset[int]:
        return frozenset(
            id(each)
            for event in self._structure.all_of(ZeroGrad)
            if isinstance(event, ZeroGrad)
            for each in graph.objects(self._machine, event.target)
        )

    def _of_setting(self, setting: Setting) -> Assumption:
        """That a setting is what it is by default; where all calls say otherwise, that is a question."""
        default = getattr(setting.default, "value", None)
        if default is None or isinstance(setting.default, Symbol):
            return Assumption("no-default", f"`{setting.name}`, which has no default, is set so")
        if self._is_always_given(setting):
            return Assumption("effect", f"`{setting.name}` is {default!r}, as by default, which no call leaves it at")
        return Assumption("default", f"`{setting.name}` is {default!r}, as by default")

    def _is_always_given(self, setting: Setting) -> bool:
        """Whether a setting is a parameter that each call of its function gives something else."""
        site = setting.site
        if site is None:
            return False
        around = (each for each in ancestors(site) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
        function, module = next(around, None), self._machine.project.module(site.module.source.path)
        if function is None or module is None:
            return False
        return is_always_given(self._machine.project, module, function, setting.name)

    def _behind_value(self, value: Value) -> Iterator[Assumption]:
        if isinstance(value, Setting):
            yield self._of_setting(value)
        elif isinstance(value, Choice):
            for guards, _ in value.options:
                yield from _behind_guards(guards)
        yield from _behind_choices(value)


def _only_reads(name: str) -> bool:
    """Whether a call, by its name, tells of an object or builds something around it, and leaves it alone.

    So does one that makes room in a table of a model for more tokens, or saves its memory.
    """
    return name in _LEAVING or speaks_of("reading", name)


def _parts_of(event: Event) -> Iterator[tuple[str, Value]]:
    """What an event is about, by the names of its fields; not what comes of it, nor what a loss compares with.

    What an attribute is set to matters to few claims: those name it.
    """
    left_out = _LEFT_OUT.get(type(event), ("result",))
    for field in fields(event):
        value = getattr(event, field.name)
        if isinstance(value, Value) and field.name not in left_out:
            yield field.name, value


def _models_behind(value: Value) -> Iterator[tuple[Guards, Value]]:
    """The models that a value was computed with, each with the conditions under which it was.

    What prepares their data is called as they are, and is none.
    """
    for guards, source in graph.sources_under(value, _MAX_BEHIND):
        if isinstance(source, Symbol) and source.inputs and source.name != "call" and _is_call_of_model(source):
            yield guards, source.inputs[0]


def _is_call_of_model(symbol: Symbol) -> bool:
    """Whether something is what an object returns that is called, the first of its inputs, and that is no tokenizer."""
    is_call = symbol.name in ("forward", "call") or symbol.name.endswith("()")
    return is_call and not any(kind in symbol.name for kind in _PREPARING)


def _is_made(given: Iterable[Value], makers: frozenset[str]) -> bool:
    """Whether values are computed from nothing but what some functions have made."""
    leaves = [leaf for value in given for leaf in _leaves(value)]
    return bool(leaves) and all(leaf in makers for leaf in leaves)


def _is_probed(event: ModelForward) -> bool:
    """Whether a model is called on something constant. Noise alone does not tell: generators are called on it."""
    leaves = {leaf for value in event.arguments.all()[:1] for leaf in _leaves(value)}
    return leaves <= _MADE and not leaves.isdisjoint(_CONSTANT)


def _leaves(value: Value) -> Iterator[str]:
    """The names of what a value was first made from; numbers, shapes, devices and models do not count."""
    seen: set[int] = set()
    pending = [value]
    for source in pending:  # which grows meanwhile
        if id(source) in seen or len(seen) >= _MAX_SOURCES:
            continue
        seen.add(id(source))
        filled = _put_into(source)
        if filled:
            pending.extend(filled)
        elif isinstance(source, Symbol) and (source.name in _MADE or not source.inputs):
            yield source.name
        elif isinstance(source, Symbol):
            pending.extend(_data_of(source))
        elif isinstance(source, Instance):
            yield source.library_name or "project"
        elif isinstance(source, Choice):
            yield "several"
        else:
            pending.extend(graph.inputs_of(source))


def _put_into(source: Value) -> list[Value]:
    """What is put into an array after it was made: `pixels[0] = image`."""
    written = source.attributes.items() if isinstance(source, Symbol) and source.name in _MADE else ()
    return [value for name, value in written if name.startswith("[")]


def _data_of(value: Symbol) -> tuple[Value, ...]:
    """The inputs of an operation without the model that is called, and without where its result is put."""
    if value.name in ("forward", "call") or value.name.endswith("()"):
        return value.inputs[1:]
    return value.inputs[:1] if value.name in graph.SELF_RETURNING else value.inputs


def _behind_choices(value: Value, name: str = "") -> Iterator[Assumption]:
    """That of several things which a value was made from, or an object stands among, it is one that is known."""
    made_from = list(_made_from(value))
    choices = [source for source in made_from if isinstance(source, Choice)]
    for choice in (*choices, *(value.choices if isinstance(value, Instance) else ())):
        yield from assumed_of_options(choice, name if choice is value else "")
    for source in made_from:
        if isinstance(source, Symbol) and source.name in _LOOKUPS and source.arguments is not None:
            given = source.arguments.get(1, "default")
            if given is not None and not isinstance(given, Const):
                yield Assumption("alternative", f"what `{source.name[1:]}` looks up is what is given for its default")


def _made_from(value: Value) -> Iterator[Value]:
    """A value and what it was made from; the state of a model is one, whichever model it is of, and a loop counts,
    however far. Into which shape something is brought, to which device, and from which file, makes it no other."""
    seen: set[int] = set()
    pending = [value]
    for current in pending:  # which grows meanwhile
        if id(current) not in seen and len(seen) < _MAX_SOURCES:
            seen.add(id(current))
            yield current
            if not (isinstance(current, Symbol) and current.name in _ENDS):
                inputs = graph.inputs_of(current)
                pending.extend(inputs[:1] if isinstance(current, Symbol) and current.name in _PLACED else inputs)


def _behind_guards(guards: Iterable[Guard]) -> Iterator[Assumption]:
    return (guard.assumption for guard in guards if guard.assumption is not None)
