"""Two axes of a tensor that are exchanged for one operation, and then back: ``x.transpose(axis, 0)``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from dllint.interp.ask import axis_moves
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import enclosing_definition, statement_around
from dllint.sites import Site
from dllint.values import Symbol, Value

_EXCHANGES = frozenset(("transpose", "swapaxes", "swapdims"))
_MAX_STEPS = 10


def is_exchanged_around(given: Value, axis: int, result: Site) -> bool:
    """Whether an operation stands between an exchange that brings another axis to a place, and the same one again.

    Args:
        given: the tensor that the operation takes.
        axis: the place.
        result: where the operation is called. Both exchanges have to be in its function, and written alike.
    """
    exchange = _exchange_before(given)
    made = exchange.site if exchange is not None else None
    if exchange is None or made is None or made.module is not result.module:
        return False
    pair = axis_moves.given_to(exchange)
    is_there = len(pair) == 2 and [axis_moves.number(each) for each in pair].count(axis) == 1
    return is_there and _axes_of(made.node) in [_axes_of(node) for node in _applied_to(result)]


def _exchange_before(value: Value) -> Symbol | None:
    """The exchange that a tensor comes from, if only what leaves all axes as they are came after it."""
    for _ in range(_MAX_STEPS):
        if not isinstance(value, Symbol) or not value.inputs:
            return None
        if value.name.rpartition(".")[2] in _EXCHANGES:
            return value
        before = axis_moves.before_same_axes(value)
        if before is None:
            return None
        value = before
    return None


def _axes_of(node: ast.AST) -> frozenset[str]:
    """The two axes that a call exchanges, as they are written."""
    return frozenset(map(ast.unparse, node.args[-2:])) if isinstance(node, ast.Call) else frozenset()


def _applied_to(made: Site) -> Iterator[ast.Call]:
    """The exchanges of axes of what is made at a place: at once, or by the variable that it is assigned to."""
    module: Any = made.module
    statement = statement_around(made)
    is_kept = isinstance(statement, ast.Assign) and statement.value is made.node and len(statement.targets) == 1
    name = ast.unparse(statement.targets[0]) if is_kept and isinstance(statement, ast.Assign) else ""
    around = enclosing_definition(made) or module.tree
    for call in nodes_of(around).of(ast.Call):
        if isinstance(call.func, ast.Attribute) and call.func.attr in _EXCHANGES:
            tensor = call.args[0] if len(call.args) == 3 else call.func.value
            if tensor is made.node or (name and ast.unparse(tensor) == name and call.lineno > made.line):
                yield call
