"""Moving averages of weights: where they are made, whether they are updated, and whether anybody saves them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from dllint.context.sources import Sources
from dllint.interp.source.topics import speaks_of
from dllint.interp.source.trees import walk
from dllint.sites import Site

_UPDATES = frozenset(("update", "update_parameters", "step", "update_average", "update_model_average", "update_ema"))
_RATE = re.compile(r"decay|beta|alpha|tau|rate|momentum", re.IGNORECASE)
_COUNTS = re.compile(r"updates|decay|step|count|num_", re.IGNORECASE)
_KEEPS = ("save", "state_dict", "register", "checkpoint", "push", "export", "dump")


@dataclass(frozen=True, slots=True)
class Average:
    """An average of weights by the name that it goes by, where it is made, and the names of what it is given."""

    name: str
    site: Site
    given: tuple[str, ...] = ()


class Averages(Sources):
    """What averages a program keeps."""

    def averages(self) -> Iterator[Average]:
        """The averages of weights that the program's files make of something and update."""
        for word in ("ema", "EMA", "ModelEMA", "EMAModel", "ModelEma", "AveragedModel", "ExponentialMovingAverage"):
            for module, tree in self.trees(word):
                found: dict[str, Average] = {}
                for node in walk(tree):
                    made = node.value if isinstance(node, ast.Assign) else None
                    name = _name_of(node.targets[0]) if isinstance(node, ast.Assign) else ""
                    calls = [each for each in walk(made) if _is_given_weights(each)] if made else []
                    if calls and speaks_of("weight-average", name) and not isinstance(made, ast.Dict | ast.List):
                        given = tuple(_name_of(each) for call in calls for each in _given_to(call))
                        found.setdefault(name, Average(name, Site(module, node), given))
                yield from (each for each in found.values() if self._is_updated(each))

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
            for node in walk(tree):
                if isinstance(node, ast.Assign) and _mentions(node.value, name):
                    yield from (found for target in node.targets if (found := _name_of(target)) not in ("", name))

    def _is_saved(self, name: str) -> bool:
        for _, tree in self.trees(name):
            gone_over = {id(call) for node in walk(tree) for call in _gone_over(node)}
            for node in walk(tree):
                if id(node) in gone_over:
                    continue
                if isinstance(node, ast.Dict | ast.Subscript):
                    stored = node.values if isinstance(node, ast.Dict) else []
                elif isinstance(node, ast.Assign):
                    stored = [node.value] if any(isinstance(target, ast.Subscript) for target in node.targets) else []
                elif isinstance(node, ast.Call) and any(word in ast.unparse(node.func).lower() for word in _KEEPS):
                    stored = [node] if "load" not in ast.unparse(node.func) else []
                else:
                    continue
                if any(_mentions(value, name) for value in stored):
                    return True
        return False

    def _is_updated(self, average: Average) -> bool:
        """Whether a method of an average updates it, or a function that is called so gets it."""
        for _, tree in self.trees(average.name):
            for node in walk(tree):
                if not isinstance(node, ast.Call):
                    continue
                called = _name_of(node.func)
                owner = _name_of(node.func.value) if isinstance(node.func, ast.Attribute) else ""
                gets_it = any(_name_of(each) == average.name for each in node.args)
                if (owner == average.name and called in _UPDATES) or (
                    gets_it and called.startswith(("update", "ema_"))
                ):
                    return True
        return False


def _gone_over(node: ast.AST) -> tuple[ast.AST, ...]:
    """A call that takes entries one by one, as `ema.state_dict().items()`, and what they are of: nobody keeps them."""
    function = node.func if isinstance(node, ast.Call) else None
    is_entries = isinstance(function, ast.Attribute) and function.attr in ("items", "values", "keys")
    return (node, function.value) if isinstance(function, ast.Attribute) and is_entries else ()


def _weights_in(value: ast.AST) -> Iterator[ast.AST]:
    """The nodes of an expression without what only counts: `ema.updates` has no weights."""
    if isinstance(value, ast.Attribute) and _COUNTS.search(value.attr):
        return
    yield value
    for child in ast.iter_child_nodes(value):
        yield from _weights_in(child)


def _mentions(value: ast.AST, name: str) -> bool:
    """Whether an expression has something of a name in it, with its weights. The first look is the cheap one."""
    return any(_is_of(each, name) for each in walk(value)) and any(_is_of(each, name) for each in _weights_in(value))


def _is_of(node: ast.AST, name: str) -> bool:
    return _name_of(node) == name


def _is_given_weights(node: ast.AST) -> bool:
    """Whether something is a call that is given more than a rate: an average that has nothing else has no weights."""
    given = node.args if isinstance(node, ast.Call) else []
    return any(not isinstance(each, ast.Constant) and not _RATE.search(ast.unparse(each)) for each in given)


def _given_to(call: ast.AST) -> list[ast.expr]:
    return [*call.args, *(each.value for each in call.keywords)] if isinstance(call, ast.Call) else []


def _name_of(node: ast.AST) -> str:
    """The last part of a name: `ema` for `ema` and for `self.ema`."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
