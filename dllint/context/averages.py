"""Moving averages of weights: where they are made, whether they are updated, and whether anybody saves them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from dllint.context.sources import Sources
from dllint.dataclass import dataclass
from dllint.events import AttributeAssigned
from dllint.forms import element_of, storage_of
from dllint.interp.source.averaged_in_place import averaged_in_place
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.topics import speaks_of
from dllint.interp.source.trees import walk
from dllint.sites import Site
from dllint.values import Class, Instance, Symbol, Value

UPDATES = frozenset(("update", "update_parameters", "step", "update_average", "update_model_average", "update_ema"))
_RATE = re.compile(r"decay|beta|alpha|tau|rate|momentum", re.IGNORECASE)
COUNTS = re.compile(r"updates|decay|step|count|num_", re.IGNORECASE)
_KEEPS = ("save", "state_dict", "register", "checkpoint", "push", "export", "dump")


@dataclass(frozen=True, slots=True)
class Average:
    """An average of weights by the name that it goes by, where it is made, and the names of what it is given."""

    name: str
    site: Site
    given: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SharedAverage:
    """Parameters of a model that are kept as an average without a copy, and a call that updates them in place."""

    model: Value
    kept: Site
    update: Site


class Averages(Sources):
    """What averages a program keeps."""

    def averages(self) -> Iterator[Average]:
        """The averages of weights that the program's files make of something and update."""
        for word in ("ema", "EMA", "ModelEMA", "EMAModel", "ModelEma", "AveragedModel", "ExponentialMovingAverage"):
            for module, tree in self.trees(word):
                found: dict[str, Average] = {}
                for node in nodes_of(tree).of(ast.Assign):
                    name, made = name_of(node.targets[0]), node.value
                    if not speaks_of("weight-average", name) or isinstance(made, ast.Dict | ast.List):
                        continue
                    if calls := [each for each in walk(made) if _is_given_weights(each)]:
                        given = tuple(name_of(each) for call in calls for each in _given_to(call))
                        found.setdefault(name, Average(name, Site(module, node), given))
                yield from (each for each in found.values() if self._is_updated(each))

    def averages_of_themselves(self) -> Iterator[SharedAverage]:
        """The averages of objects of the project whose entries are the very parameters of the model that they average.

        `self.shadow = {name: p.data ...}` has no copies, so that `self.shadow[name].mul_(decay)` changes the model.
        """
        known: set[tuple[int, str]] = set()
        for event in self.all_of(AttributeAssigned):
            owner, name = event.target, event.attribute
            if not isinstance(owner, Instance) or not isinstance(owner.cls, Class) or (id(owner), name) in known:
                continue
            known.add((id(owner), name))
            found, module = averaged_in_place(owner.cls.node, name), owner.cls.module
            model = owner.attributes.get(found.model) if found is not None else None
            if found is not None and model is not None:
                yield SharedAverage(model, Site(module, found.kept), Site(module, found.update))

    @staticmethod
    def model_of_parameter(value: Value) -> Value | None:
        """The model of which a value is a parameter itself, detached or not: `p.data for p in model.parameters()`."""
        listed = element_of(storage_of(value))
        is_parameters = isinstance(listed, Symbol) and listed.name == "parameters" and bool(listed.inputs)
        return listed.inputs[0] if is_parameters and isinstance(listed, Symbol) else None

    def is_kept(self, average: Average) -> bool:
        """Whether any code of the program's files puts an average into what is saved, or saves it.

        So it is where what does the averaging is given the averaged model, and that is saved.
        """
        models = [name for name in average.given if name != average.name and speaks_of("weight-average", name)]
        if any(map(self._is_saved, (average.name, *models))):
            return True
        return any(self._is_saved(name) for name in self._copies_of(average.name) if name not in average.given)

    def _copies_of(self, name: str) -> Iterator[str]:
        """The names of what is a copy or a part of an average: `best = deepcopy(ema.module)`."""
        for _, tree in self.trees(name):
            lines = _lines_with(tree, name)
            for node in nodes_of(tree).of(ast.Assign) if lines else ():
                if _mentions(node.value, name, lines):
                    yield from (found for target in node.targets if (found := name_of(target)) not in ("", name))

    def _is_saved(self, name: str) -> bool:
        for _, tree in self.trees(name):
            lines = _lines_with(tree, name)
            if any(_mentions(value, name, lines) for value in (_stored_in(tree) if lines else ())):
                return True
        return False

    def _is_updated(self, average: Average) -> bool:
        """Whether a method of an average updates it, or a function that is called so gets it."""
        for _, tree in self.trees(average.name):
            for node in nodes_of(tree).of(ast.Call):
                called = name_of(node.func)
                owner = name_of(node.func.value) if isinstance(node.func, ast.Attribute) else ""
                gets_it = any(name_of(each) == average.name for each in node.args)
                if (owner == average.name and called in UPDATES) or (
                    gets_it and called.startswith(("update", "ema_", "step_ema"))
                ):
                    return True
        return False


@lru_cache(maxsize=8)  # each average of the files of a program asks about the same trees
def _stored_in(tree: ast.Module) -> Sequence[ast.expr]:
    """What a file puts into a dict, or saves by a call."""
    nodes = nodes_of(tree)
    found = [value for node in nodes.of(ast.Dict) for value in node.values]
    assigned = nodes.of(ast.Assign)
    found += [node.value for node in assigned if any(isinstance(target, ast.Subscript) for target in node.targets)]
    calls = nodes.of(ast.Call)
    gone_over = {id(call) for node in calls for call in _gone_over(node)}
    return (*found, *(node for node in calls if id(node) not in gone_over and keeps(ast.unparse(node.func))))


def keeps(function: str) -> bool:
    return "load" not in function and any(word in function.lower() for word in _KEEPS)


def _lines_with(tree: ast.Module, name: str) -> Sequence[int]:
    """The lines in which a file reads or binds something of a name."""
    nodes = nodes_of(tree)
    return [node.lineno for node in (*nodes.names.get(name, ()), *nodes.attributes.get(name, ()))]


def _gone_over(node: ast.Call) -> tuple[ast.AST, ...]:
    """A call that takes entries one by one, as `ema.state_dict().items()`, and what they are of: nobody keeps them."""
    function = node.func
    is_entries = isinstance(function, ast.Attribute) and function.attr in ("items", "values", "keys")
    return (node, function.value) if isinstance(function, ast.Attribute) and is_entries else ()


def _weights_in(value: ast.AST) -> Iterator[ast.AST]:
    """The nodes of an expression without what only counts: `ema.updates` has no weights."""
    if isinstance(value, ast.Attribute) and COUNTS.search(value.attr):
        return
    yield value
    for child in ast.iter_child_nodes(value):
        yield from _weights_in(child)


def _mentions(value: ast.expr, name: str, lines: Sequence[int]) -> bool:
    """Whether an expression has something of a name in it, with its weights; ``lines`` are those with the name."""
    last = value.end_lineno or value.lineno
    is_near = any(value.lineno <= line <= last for line in lines)  # the cheap look
    return is_near and any(name_of(each) == name for each in _weights_in(value))


def _is_given_weights(node: ast.AST) -> bool:
    """Whether something is a call that is given more than a rate: an average that has nothing else has no weights."""
    given = node.args if isinstance(node, ast.Call) else []
    return any(not isinstance(each, ast.Constant) and not _RATE.search(ast.unparse(each)) for each in given)


def _given_to(call: ast.AST) -> list[ast.expr]:
    return [*call.args, *(each.value for each in call.keywords)] if isinstance(call, ast.Call) else []


def name_of(node: ast.AST) -> str:
    """The last part of a name: `ema` for `ema` and for `self.ema`."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
