"""Random numbers by which code of the project changes a sample: a coin that decides on a flip, the angle of a turn."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from dllint.events import LibraryCall, RandomSeeded
from dllint.interp.ask.attempts import attempt
from dllint.interp.source import trees
from dllint.sites import Guard, Guards
from dllint.structure import walk
from dllint.values import Const, Instance

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine
    from dllint.interp.run.trial import Trial

_DRAWS = frozenset(
    [f"random.{name}" for name in ("random", "uniform", "randint", "randrange", "gauss", "choice", "betavariate")]
    + [f"numpy.random.{name}" for name in ("rand", "random", "uniform", "randint", "normal", "choice", "binomial")]
    + [f"torch.{name}" for name in ("rand", "randint", "randn", "bernoulli")]
)
_SEEDERS = {"random.seed": "random", "numpy.random.seed": "numpy.random", "torch.manual_seed": "torch"}
_CHANGES = re.compile(
    r"flip|mirror|rotat|rot90|crop|jitter|blur|augment|bright|contrast|saturat|adjust_hue|gamma|shear|affine|warp|erase|"
    r"cutout|perspective|elastic",
    re.IGNORECASE,
)
_MOVES_PIXELS = re.compile(r"flip|mirror|rotat|rot90|crop|shear|affine|warp|perspective|elastic", re.IGNORECASE)


def draws_of(machine: Machine, value: Instance, method: str) -> list[LibraryCall]:
    """The calls that draw such numbers when a method of an object of the project is called, for something unknown.

    What is found does not depend on what the sieve would leave out, and counts for nothing else in the program.
    """
    trial = attempt(machine, value, method, "index")
    if trial is None:
        return []
    applied = [event for event in _unseeded(trial) if event.frame.definition is not None and _is_applied(event, trial)]
    return [event for event in applied if not _is_switched_off(event)]


def draws_for_parts(machine: Machine, transform: Instance) -> list[tuple[LibraryCall, ast.For]]:
    """The numbers that move pixels and that a transform draws anew for each part of a sample, with the loop over these.

    The loop goes over the sample that the transform is given, or over its keys: ``for key in sample.keys()``.
    """
    found = []
    for draw in (each for method in ("__call__", "forward") for each in draws_of(machine, transform, method)):
        function = draw.frame.definition.node if draw.frame.definition is not None else None
        if not isinstance(function, ast.FunctionDef) or not isinstance(draw.site.node, ast.Call):
            continue
        loops = [node for node in trees.walk(function) if isinstance(node, ast.For) and _is_over_sample(node, function)]
        for loop in loops:
            within = {id(node) for node in trees.walk(loop)}
            changes = [each for each in _changes_by(draw.site.node, function) if id(each) in within]
            if id(draw.site.node) in within and any(map(_moves_pixels, changes)):
                found.append((draw, loop))
    return found


def _is_over_sample(loop: ast.For, function: ast.FunctionDef) -> bool:
    """Whether a loop goes over the keys of what a method is given."""
    given = {each.arg for each in function.args.args[1:]}
    over = loop.iter
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute) and over.func.attr in ("keys", "items"):
        over = over.func.value
    return isinstance(over, ast.Name) and over.id in given


def _moves_pixels(change: ast.AST) -> bool:
    calls = (each for each in trees.walk(change) if isinstance(each, ast.Call))
    return any(_MOVES_PIXELS.search(ast.unparse(each.func)) for each in calls)


def _unseeded(trial: Trial) -> Iterator[LibraryCall]:
    """The draws of a call, but those after the call has seeded what they draw from: a sample is the same each time."""
    seeded: set[str] = set()
    for event in walk(trial.body):
        if isinstance(event, RandomSeeded):
            seeded.add(_SEEDERS.get(event.function, ""))
        elif isinstance(event, LibraryCall) and event.name in _DRAWS and event.name.rpartition(".")[0] not in seeded:
            yield event


def conditions_of(draw: LibraryCall) -> Guards:
    """The conditions on the way to a draw, but those that other draws decide."""
    owner = _owner(draw)
    function = draw.frame.definition.node if draw.frame.definition is not None else None
    given = function.args.args if isinstance(function, ast.FunctionDef) else []
    switches = {*(each.arg for each in given), *(f"self.{name}" for name in (owner.attributes if owner else ()))}
    return tuple(guard for guard in draw.guards if not _is_of_chance(guard, switches))


def _is_of_chance(guard: Guard, switches: set[str]) -> bool:
    """Whether a condition asks what was drawn, by its words, and not for a switch: ``if self.random_mirror``."""
    asked = guard.subject.rpartition(":")[2]
    return "rand" in asked and not (guard.relation == "truthy" and asked in switches)


def _is_applied(draw: LibraryCall, trial: Trial) -> bool:
    """Whether a number that is drawn changes something in a branch that the object may take."""
    assert draw.frame.definition is not None
    function = draw.frame.definition.node
    changes = _changes_by(draw.site.node, function) if isinstance(draw.site.node, ast.Call) else ()
    return any(not _is_left_out(change, function, _owner(draw), trial.settled) for change in changes)


def _owner(draw: LibraryCall) -> Instance | None:
    """The object that `self` is where a number is drawn."""
    return draw.frame.receiver if isinstance(draw.frame.receiver, Instance) else None


def _is_left_out(
    change: ast.AST, function: ast.AST, owner: Instance | None, settled: Mapping[ast.AST, bool | None]
) -> bool:
    """Whether a change stands in a branch that the object does not take: ``if self.split == "train"`` of test data.

    It does so, too, where the number that is drawn is ``settled`` not to matter: ``if random.random() < 0``.
    """
    for node in trees.walk(function):
        outcome = _truth(node.test, owner) if isinstance(node, ast.If | ast.IfExp) else None
        if outcome is None and isinstance(node, ast.If | ast.IfExp):
            outcome = _outcome_by_chance(node.test, settled)
            if node is change and outcome is not None:
                return True
        if outcome is None or not isinstance(node, ast.If | ast.IfExp):
            continue
        if node is change and not outcome:
            return True
        dead = node.orelse if outcome else node.body
        parts = dead if isinstance(dead, list) else [dead]
        if any(child is change for part in parts for child in trees.walk(part)):
            return True
    return False


def _is_switched_off(draw: LibraryCall) -> bool:
    """Whether nothing comes of a number that is drawn, as the object says.

    It is compared with one that the object has as 0, ``random.random() < self.p_flip``, or what else is asked is not
    so: ``random.random() < 0.5 and self.mode == "train"``.
    """
    assert draw.frame.definition is not None
    owner = _owner(draw)
    for node in trees.walk(draw.frame.definition.node):
        if isinstance(node, ast.Compare) and node.left is draw.site.node and isinstance(node.ops[0], ast.Lt | ast.LtE):
            limit = _held(node.comparators[0], owner)
            if limit is not None and isinstance(limit.value, int | float) and limit.value <= 0:
                return True
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            others = [each for each in node.values if not any(child is draw.site.node for child in trees.walk(each))]
            if len(others) < len(node.values) and any(_truth(each, owner) is False for each in others):
                return True
    return False


def _held(node: ast.expr, owner: Instance | None) -> Const | None:
    """What ``self.name`` is, if that is a constant."""
    is_own = isinstance(node, ast.Attribute) and ast.unparse(node.value) == "self"
    held = owner.attributes.get(node.attr) if owner and is_own and isinstance(node, ast.Attribute) else None
    return held if isinstance(held, Const) else None


def _outcome_by_chance(test: ast.expr, settled: Mapping[ast.AST, bool | None]) -> bool | None:
    """The outcome of a condition, where a comparison of a number that is drawn decides it and comes out one way."""
    if isinstance(test, ast.BoolOp):
        outcomes = {settled.get(each) for each in test.values}
        deciding = isinstance(test.op, ast.Or)
        return deciding if deciding in outcomes else None
    return settled.get(test)


def _truth(test: ast.expr, owner: Instance | None) -> bool | None:
    """Whether a condition about attributes of the object holds, `self.train`, ``self.mode == "train"``, if known."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _truth(test.operand, owner)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        outcomes = {_truth(each, owner) for each in test.values}
        deciding = isinstance(test.op, ast.Or)
        return deciding if deciding in outcomes else None if None in outcomes else not deciding
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.comparators[0], ast.Constant):
        held, other = _held(test.left, owner), test.comparators[0].value
        if held is None or not isinstance(test.ops[0], ast.Eq | ast.NotEq | ast.Is | ast.IsNot):
            return None
        return (held.value == other) is isinstance(test.ops[0], ast.Eq | ast.Is)
    held = _held(test, owner)
    return None if held is None else bool(held.value)


@lru_cache(maxsize=1024)
def _changes_by(draw: ast.Call, function: ast.AST) -> Sequence[ast.AST]:
    """Where a function changes images by a number that it draws: as a condition, or as the amount of a change."""
    found: list[ast.AST] = []
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
            found.append(node)
        if isinstance(node, ast.IfExp) and mentions(node.test) and _is_change(node.body):
            found.append(node)
        is_change = isinstance(node, ast.Call) and node is not draw and _CHANGES.search(ast.unparse(node.func))
        if is_change and mentions(*node.args, *(keyword.value for keyword in node.keywords)):  # type: ignore[attr-defined]
            found.append(node)
    return found


def _is_change(node: ast.AST) -> bool:
    """Whether code calls something that flips, crops or turns images, or turns an axis round (``image[:, ::-1]``)."""
    for child in trees.walk(node):
        if isinstance(child, ast.Call) and _CHANGES.search(ast.unparse(child)):
            return True
        if isinstance(child, ast.Slice) and isinstance(child.step, ast.UnaryOp) and isinstance(child.step.op, ast.USub):
            return True
    return False
