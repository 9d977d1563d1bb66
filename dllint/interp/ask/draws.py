"""Random numbers by which code of the project changes a sample: a coin that decides on a flip, the angle of a turn."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from typing import TYPE_CHECKING

from dllint.events import LibraryCall
from dllint.interp.ask.attempts import attempt
from dllint.interp.source import trees
from dllint.sites import Guards
from dllint.structure import walk
from dllint.values import Const, Instance

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_DRAWS = frozenset(
    [f"random.{name}" for name in ("random", "uniform", "randint", "randrange", "gauss", "choice", "betavariate")]
    + [f"numpy.random.{name}" for name in ("rand", "random", "uniform", "randint", "normal", "choice", "binomial")]
    + [f"torch.{name}" for name in ("rand", "randint", "randn", "bernoulli")]
)
_CHANGES = re.compile(
    r"flip|mirror|rotat|rot90|crop|jitter|blur|augment|bright|contrast|saturat|adjust_hue|gamma|shear|affine|warp|erase|"
    r"cutout|perspective|elastic",
    re.IGNORECASE,
)


def draws_of(machine: Machine, value: Instance, method: str) -> list[LibraryCall]:
    """The calls that draw such numbers when a method of an object of the project is called, for something unknown.

    What is found does not depend on what the sieve would leave out, and counts for nothing else in the program.
    """
    trial = attempt(machine, value, method, "index")
    if trial is None:
        return []
    calls = [event for event in walk(trial.body) if isinstance(event, LibraryCall) and event.name in _DRAWS]
    applied = [event for event in calls if event.frame.definition is not None and _is_applied(event)]
    return [event for event in applied if not _is_switched_off(event, value)]


def conditions_of(draw: LibraryCall) -> Guards:
    """The conditions on the way to a draw, but those that other draws decide."""
    return tuple(guard for guard in draw.guards if "rand" not in guard.subject)


def _is_applied(draw: LibraryCall) -> bool:
    assert draw.frame.definition is not None
    return isinstance(draw.site.node, ast.Call) and _changes_by(draw.site.node, draw.frame.definition.node)


def _is_switched_off(draw: LibraryCall, owner: Instance) -> bool:
    """Whether nothing comes of a number that is drawn, as the object says.

    It is compared with one that the object has as 0, ``random.random() < self.p_flip``, or what else is asked is not
    so: ``random.random() < 0.5 and self.mode == "train"``.
    """
    assert draw.frame.definition is not None
    for node in trees.walk(draw.frame.definition.node):
        if isinstance(node, ast.Compare) and node.left is draw.site.node and isinstance(node.ops[0], ast.Lt | ast.LtE):
            limit = _held(node.comparators[0], owner)
            if limit is not None and isinstance(limit.value, int | float) and limit.value <= 0:
                return True
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            others = [each for each in node.values if not any(child is draw.site.node for child in trees.walk(each))]
            if len(others) < len(node.values) and any(_is_false(each, owner) for each in others):
                return True
    return False


def _held(node: ast.expr, owner: Instance) -> Const | None:
    """What ``self.name`` is, if that is a constant."""
    is_own = isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self"
    held = owner.attributes.get(node.attr) if is_own and isinstance(node, ast.Attribute) else None
    return held if isinstance(held, Const) else None


def _is_false(test: ast.expr, owner: Instance) -> bool:
    """Whether a condition about an attribute of the object does not hold: `self.train`, ``self.mode == "train"``."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        held = _held(test.operand, owner)
        return held is not None and bool(held.value)
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.comparators[0], ast.Constant):
        held, other = _held(test.left, owner), test.comparators[0].value
        is_equal = held is not None and held.value == other
        return held is not None and isinstance(test.ops[0], ast.NotEq if is_equal else ast.Eq)
    held = _held(test, owner)
    return held is not None and not held.value


@lru_cache(maxsize=1024)
def _changes_by(draw: ast.Call, function: ast.AST) -> bool:
    """Whether a function changes images by a number that it draws: as a condition, or as the amount of a change."""
    names = {
        target.id
        for node in trees.walk(function)
        if isinstance(node, ast.Assign) and any(child is draw for child in trees.walk(node.value))
        for target in node.targets
        if isinstance(target, ast.Name)
    }

    def mentions(*nodes: ast.AST) -> bool:
        children = (child for node in nodes for child in trees.walk(node))
        return any(child is draw or (isinstance(child, ast.Name) and child.id in names) for child in children)

    for node in trees.walk(function):
        if isinstance(node, ast.If) and mentions(node.test) and any(map(_is_change, node.body)):
            return True
        if isinstance(node, ast.IfExp) and mentions(node.test) and _is_change(node.body):
            return True
        is_change = isinstance(node, ast.Call) and node is not draw and _CHANGES.search(ast.unparse(node.func))
        if is_change and mentions(*node.args, *(keyword.value for keyword in node.keywords)):  # type: ignore[attr-defined]
            return True
    return False


def _is_change(node: ast.AST) -> bool:
    """Whether code calls something that flips, crops or turns images, or turns an axis round (``image[:, ::-1]``)."""
    for child in trees.walk(node):
        if isinstance(child, ast.Call) and _CHANGES.search(ast.unparse(child)):
            return True
        if isinstance(child, ast.Slice) and isinstance(child.step, ast.UnaryOp) and isinstance(child.step.op, ast.USub):
            return True
    return False
