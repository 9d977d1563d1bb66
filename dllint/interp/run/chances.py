"""Comparisons of numbers that are drawn from 0 to 1: with a limit of 0 or 1 chance has no say in them."""

from __future__ import annotations

import ast

from dllint.values import Const, Symbol, Value

_FROM_0_TO_1 = frozenset(("random.random", "numpy.random.rand", "numpy.random.random", "numpy.random.random_sample"))
_BETWEEN = frozenset(("random.uniform", "numpy.random.uniform"))
_ONE = frozenset((".item", "item"))
_TURNED = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}


def outcome_of_chance(op: ast.cmpop, left: Value, right: Value) -> bool | None:
    """The outcome of comparing a number that is drawn with another one; ``None`` where chance, or nobody, knows it.

    The limits themselves are drawn with no probability worth the name.
    """
    kind = type(op)
    if kind not in _TURNED:
        return None
    if isinstance(left, Const):
        left, right, kind = right, left, _TURNED[kind]
    is_number = isinstance(right, Const) and isinstance(right.value, int | float)
    if not is_number or not isinstance(right, Const) or not _is_from_0_to_1(left):
        return None
    is_below = kind in (ast.Lt, ast.LtE)
    return not is_below if right.value <= 0 else is_below if right.value >= 1 else None


def _is_from_0_to_1(value: Value) -> bool:
    """Whether a value is one number that was drawn from all between 0 and 1."""
    while isinstance(value, Symbol) and value.name in _ONE and value.inputs:
        value = value.inputs[0]
    given = value.arguments if isinstance(value, Symbol) else None
    if not isinstance(value, Symbol) or given is None or not given.exact:
        return False
    told = [each.value if isinstance(each, Const) else None for each in given.positional]
    if value.name == "torch.rand":
        return told == [1]
    is_plain = value.name in _FROM_0_TO_1 or value.name == "numpy.random.uniform"
    return not given.keywords and ((is_plain and not told) or (value.name in _BETWEEN and told == [0, 1]))
