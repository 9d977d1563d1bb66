"""What the code of a generator tells about what it yields."""

from __future__ import annotations

import ast

_COUNTERS = frozenset(("count", "cycle", "repeat"))  # of itertools


def is_endless(function: ast.AST) -> bool:
    """Whether a generator begins again whenever it is through: it yields in ``while True`` or over ``count()``."""
    return any(_yields(node) for node in ast.walk(function) if _repeats(node))


def _repeats(node: ast.AST) -> bool:
    if isinstance(node, ast.While):
        return isinstance(node.test, ast.Constant) and bool(node.test.value)
    call = node.iter if isinstance(node, ast.For) else None
    name = call.func if isinstance(call, ast.Call) else None
    is_bounded = isinstance(call, ast.Call) and (len(call.args) > 1 or len(call.keywords) > 1)  # `repeat(x, 3)`
    return not is_bounded and getattr(name, "attr", getattr(name, "id", "")) in _COUNTERS


def _yields(loop: ast.AST) -> bool:
    """Whether a loop yields from within another loop, or all of something; and never leaves."""
    inside = list(ast.walk(loop))
    loops = [node for node in inside if node is not loop and isinstance(node, ast.For | ast.While)]
    in_loops = (each for inner in loops for each in ast.walk(inner) if isinstance(each, ast.Yield))
    is_yielding = any(True for _ in in_loops) or any(isinstance(node, ast.YieldFrom) for node in inside)
    return is_yielding and not any(isinstance(node, ast.Return) for node in inside)
