"""What ``torch.load`` refuses by default since torch 2.6, which reads tensors, numbers, texts and plain containers."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator, Sequence

from dllint.choices import alternatives
from dllint.context.loading import PLAIN_ATTRIBUTES
from dllint.dataclass import dataclass
from dllint.events import (
    Event,
    LibraryCall,
    ModeChange,
    ModelChanged,
    ModelForward,
    OptimizerCreated,
    OptimizerStep,
    StateRead,
    StateRestored,
    StateSaved,
)
from dllint.interp.run import graph, roles
from dllint.interp.run.guards import guards_of
from dllint.interp.run.machine import Machine
from dllint.interp.source.facts import Facts
from dllint.interp.source.imported import dotted_name, imported_names
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import ancestors, enclosing_definition
from dllint.sites import Guard, Guards, Module, Site
from dllint.values import Class, Const, External, Function, Instance, Symbol, Value

# Measured on torch 2.13: each raises `UnpicklingError` where it is anywhere in what is loaded.
_REFUSED = {
    "argparse.Namespace": "an `argparse.Namespace`",
    "types.SimpleNamespace": "a `SimpleNamespace`",
    "collections.defaultdict": "a `defaultdict`",
    "collections.deque": "a `deque`",
    "datetime.datetime": "a `datetime`",
    "datetime.datetime.now": "a `datetime`",
    "datetime.date.today": "a `date`",
    "datetime.timedelta": "a `timedelta`",
    "pathlib.Path": "a `Path`",
    "pathlib.PurePath": "a `Path`",
    "torch.Generator": "a `torch.Generator`",
    "numpy.random.get_state": "numpy's random state, which holds an array",
    "random.Random": "a `Random`",
}
_ROLES = {
    "module": "a whole module",
    "wrapper": "a whole module",
    "optimizer": "a whole optimizer, and not its state dict",
    "scheduler": "a whole scheduler, and not its state dict",
    "scaler": "a whole gradient scaler, and not its state dict",
    "loader": "a data loader",
    "dataset": "a dataset",
}
# What numpy computes is an array or a number of numpy's own, but for these.
_PLAIN = ("numpy.random.", "numpy.all", "numpy.any", "numpy.array_equal", "numpy.is", "numpy.ndim", "numpy.shape")
_PLAIN_TOO = frozenset(("numpy.size", "numpy.load", "numpy.save", "numpy.savez", "numpy.set_printoptions"))
_NUMPY_STATE = "numpy's random state"
_ARITHMETIC = frozenset(("+", "-", "*", "/", "//", "**", "%", "negative", "round", "abs", "max", "min", "item"))
_OF_ARRAYS = frozenset(
    (".mean", ".sum", ".max", ".min", ".std", ".var", ".copy", ".astype", ".round", ".argmax", ".argmin", ".reshape",
     ".flatten", ".ravel", ".transpose", ".cumsum", ".prod", ".squeeze")
)  # fmt: skip


def refusal(value: Value, role_of: Callable[[Value], str]) -> str:
    """What is refused about a value that is saved, in words; empty where it can be loaded, or is not known.

    Containers are not looked into: `Saved.parts` are what stands in them.
    """
    if isinstance(value, Instance):
        if isinstance(value.cls, Class):
            return _ROLES.get(role_of(value), f"an object of the class `{value.cls.name}`")
        return _REFUSED.get(value.cls, "") or _ROLES.get(role_of(value), "")
    if isinstance(value, Function | Class):
        return f"`{value.name}`, which is code"
    if not isinstance(value, Symbol):
        return ""
    if value.name == "/" and any(refusal(part, role_of) == _REFUSED["pathlib.Path"] for part in value.inputs):
        return _REFUSED["pathlib.Path"]
    if value.name in _REFUSED:
        return _REFUSED[value.name]
    return "a number or array of numpy" if is_of_numpy(value) else ""


def is_of_numpy(value: Value, depth: int = 8) -> bool:
    """Whether a value is an array or a number of numpy's, rather than one of Python's or a tensor."""
    if not isinstance(value, Symbol) or depth == 0:
        return False
    if value.name.startswith("numpy."):
        return not value.name.startswith(_PLAIN) and value.name not in _PLAIN_TOO
    if value.name in _OF_ARRAYS:
        return is_of_numpy(value.inputs[0], depth - 1)
    if value.name == ".numpy":
        return True
    if value.name not in _ARITHMETIC or not value.inputs:
        return False
    operands = value.inputs[:1] if value.name in ("item", "round") else value.inputs
    found = [is_of_numpy(option, depth - 1) for part in operands for _, option in _options(part)]
    known = [isinstance(option, Const | External) for part in operands for _, option in _options(part)]
    return any(found) and all(one or other for one, other in zip(found, known, strict=True))


def _options(value: Value) -> Iterator[tuple[object, Value]]:
    yield from alternatives(value)


# ------------------------------------------------------------------------------------- what is done with what was read

_ASKING = frozenset(("isinstance", "hasattr", "type", "callable", "getattr", "issubclass"))
_WRAPPED = ("module", "_orig_mod")


@dataclass(frozen=True, slots=True)
class ObjectUse:
    """A place where what was read is used as only an object can be: as what, and under which further conditions."""

    site: Site
    what: str
    guards: Guards = ()


def object_use(read: StateRead, events: Sequence[Event], machine: Machine) -> ObjectUse | None:
    """Where something that was read is used as only an object can be, and as what, in words.

    Args:
        read: where the file is read.
        events: what happens in the program.
        machine: what the program was run on.
    """
    known = {guard.key() for guard in read.guards}
    for event in events:
        for value, what in _used(event, machine.facts):
            for guards, option in alternatives(value):
                is_plain = what == _NUMPY_STATE and not _is_stored_as_numpy_state(option, machine)
                if _root(option) is read.result and not _is_asked(event.guards, known) and not is_plain:
                    return ObjectUse(event.site, what, tuple(guard for guard in guards if guard.key() not in known))
    for held in (each for each in (read.result, *_items(read.result)) if isinstance(each, Symbol)):
        for name, value in held.attributes.items():
            is_read = isinstance(value, Symbol) and value.name == "attribute" and value.inputs[0] is held
            if not is_read or name in PLAIN_ATTRIBUTES or held.site is None or _is_asked_around(value.site):
                continue
            if not _is_told_apart(held):
                return ObjectUse(value.site or held.site, f"an object with an attribute `{name}`")
    return None


def is_written_without(used: ObjectUse, saves: Sequence[StateSaved]) -> bool:
    """Whether what is saved to the same file never gets to a use, as the program says: it saves ``if kind != "table"``,
    and uses an object as such ``if kind == "table"``, in the same function."""
    inside = enclosing_definition(used.site)
    if inside is None or not saves or any(enclosing_definition(save.site) is not inside for save in saves):
        return False
    needed = {guard.negated().key() for guard in _conditions_around(used.site, inside)}
    return all(any(guard.key() in needed for guard in _conditions_around(save.site, inside)) for save in saves)


def _conditions_around(site: Site, inside: ast.AST) -> Iterator[Guard]:
    """What is certain at a place by the tests around it, of variables that the function does not bind itself."""
    nodes = nodes_of(inside)
    bound = {name for name, found in nodes.names.items() if any(not isinstance(each.ctx, ast.Load) for each in found)}
    for node in (each for each in ancestors(site) if isinstance(each, ast.If)):
        names = {each.id for each in ast.walk(node.test) if isinstance(each, ast.Name)}
        for holds, branch in ((True, node.body), (False, node.orelse)):
            if names.isdisjoint(bound) and any(child is site.node for part in branch for child in ast.walk(part)):
                yield from guards_of(node.test, holds)


def _is_told_apart(held: Symbol) -> bool:
    """Whether the code asks what type something is of, under the name that it has: it may be a dict as well."""
    name = roles.name_of(held)
    if held.site is None or not name:
        return False
    calls = (node for node in ast.walk(held.site.module.tree) if isinstance(node, ast.Call) and node.args)
    return any(
        isinstance(node.func, ast.Name) and node.func.id in _ASKING and ast.unparse(node.args[0]) == name
        for node in calls
    )


def _used(event: Event, facts: Facts) -> Iterator[tuple[Value, str]]:
    """What an event uses as objects, and as what."""
    given: Value | None = None
    if isinstance(event, ModelForward | ModeChange) or (
        isinstance(event, ModelChanged) and facts.role(event.action) == "wrapper"
    ):
        yield event.model, "a module"
    elif isinstance(event, OptimizerStep):
        yield event.optimizer, "an optimizer"
    elif isinstance(event, StateRestored):
        yield event.target, "an object with a state"
        given = event.state
    elif isinstance(event, LibraryCall) and event.name == "numpy.random.set_state":
        yield event.arguments.get(0, "state") or event.result, _NUMPY_STATE
    elif isinstance(event, OptimizerCreated):
        given = event.parameters
    elif isinstance(event, StateSaved):
        given = event.content
    for source in graph.sources(given, 40) if given is not None else ():
        if isinstance(source, Symbol) and source.name in _OF_MODULES and source.inputs:
            yield source.inputs[0], "a module"


_OF_MODULES = frozenset(("parameters", ".parameters", "state_dict", ".named_parameters", "named_parameters"))


def _is_stored_as_numpy_state(value: Value, machine: Machine) -> bool:
    """Whether code of the project puts numpy's random state as it is, not as lists, under the key of a value."""
    key = value.inputs[1] if isinstance(value, Symbol) and len(value.inputs) > 1 else None
    if not isinstance(key, Const) or not isinstance(key.value, str):
        return False
    project, word = machine.project, re.compile(rf"['\"]{re.escape(key.value)}['\"]")
    files = dict.fromkeys((*project.closure(machine.main), *project.mentioning(word, re.compile(r"\bget_state\b"))))
    return any(_puts_numpy_state(module, key.value) for module in project.reading_each(files))


def _puts_numpy_state(module: Module, key: str) -> bool:
    imported, nodes = imported_names(module.tree), nodes_of(module.tree)
    entries: list[tuple[ast.expr | None, ast.expr]] = []
    for table in nodes.of(ast.Dict):
        entries.extend(zip(table.keys, table.values, strict=True))
    for each in nodes.of(ast.Assign):
        entries.extend((target.slice, each.value) for target in each.targets if isinstance(target, ast.Subscript))
    return any(
        isinstance(name, ast.Constant)
        and name.value == key
        and isinstance(value, ast.Call)
        and dotted_name(value, imported) == "numpy.random.get_state"
        for name, value in entries
    )


def _root(value: Value) -> Value:
    """What was read, behind moves, casts, keys and wrappers."""
    while isinstance(value, Symbol) and value.inputs:
        is_item = value.name == "item" and isinstance(value.detail, str)
        is_inner = value.name == "attribute" and value.detail in _WRAPPED
        if not (is_item or is_inner or value.name in graph.SELF_RETURNING):
            break
        value = value.inputs[0]
    return value


def _items(result: Value) -> list[Symbol]:
    """The entries that are looked up in what was read."""
    held = result.attributes.values() if isinstance(result, Symbol) else ()
    options = [option for value in held for _, option in alternatives(value)]
    return [option for option in options if isinstance(option, Symbol) and option.name == "item"]


def _is_asked_around(site: Site | None) -> bool:
    """Whether the code around a place tests a type."""
    tests = (node.test for node in ancestors(site) if isinstance(node, ast.If | ast.IfExp)) if site is not None else ()
    nodes = (node for test in tests for node in ast.walk(test) if isinstance(node, ast.Call))
    return any(isinstance(node.func, ast.Name) and node.func.id in _ASKING for node in nodes)


def _is_asked(guards: Guards, known: Collection[tuple[str, str, str, bool]]) -> bool:
    """Whether some conditions, but for those that are known, are tests of a type, or of what is in something."""
    tests = (guard.node for guard in guards if guard.key() not in known and guard.node is not None)
    nodes = [node for test in tests for node in ast.walk(test)]
    calls = [node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    compared = [operator for node in nodes if isinstance(node, ast.Compare) for operator in node.ops]
    return not _ASKING.isdisjoint(calls) or any(isinstance(operator, ast.In | ast.NotIn) for operator in compared)
