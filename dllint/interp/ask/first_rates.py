"""Whether a schedule begins with a rate of zero, as its function is written."""

from __future__ import annotations

import ast

from dllint.interp.source.nodes import nodes_of

_COUNT = "last_epoch"  # of a scheduler's `get_lr`


def is_zero_at_first(function: ast.Lambda | ast.FunctionDef) -> bool:
    """Whether what a function returns is zero where the number that it counts by is: its argument, or `last_epoch`.

    Args:
        function: what is given to ``LambdaLR``, or the method ``get_lr``.
    """
    parameters = [each.arg for each in function.args.args]
    count = parameters[0] if parameters and parameters[0] != "self" else ""
    if isinstance(function, ast.Lambda):
        return _is_zero(function.body, count, {})
    nodes = nodes_of(function)
    bound: dict[str, list[ast.expr]] = {}
    for each in nodes.of(ast.Assign):
        for target in each.targets:
            bound.setdefault(ast.unparse(target), []).append(each.value)
    once = {name: values[0] for name, values in bound.items() if len(values) == 1}
    of_start = [each for test in nodes.of(ast.If) if _is_of_start(test.test, count) for each in test.body]
    returns = [each for each in of_start if isinstance(each, ast.Return)] or [*nodes.of(ast.Return)]
    value = returns[0].value if returns else None
    return value is not None and _is_zero(value, count, once)


def _is_of_start(test: ast.expr, count: str) -> bool:
    """Whether a test asks for a number that is still small: ``step < warmup``."""
    is_below = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.Lt | ast.LtE)
    return is_below and isinstance(test, ast.Compare) and _is_zero(test.left, count, {})


def _is_zero(node: ast.expr, count: str, bound: dict[str, ast.expr]) -> bool:
    """Whether an expression is zero where the count is, and nothing else in it."""
    if isinstance(node, ast.Name):
        value = bound.get(node.id)
        others = {name: each for name, each in bound.items() if name != node.id}
        return node.id == count or (value is not None and _is_zero(value, count, others))
    if isinstance(node, ast.Attribute):
        return node.attr == _COUNT
    if isinstance(node, ast.BinOp):
        left, right = _is_zero(node.left, count, bound), _is_zero(node.right, count, bound)
        if isinstance(node.op, ast.Mult):
            return left or right
        return left and (right or isinstance(node.op, ast.Div | ast.FloorDiv | ast.Pow))
    if isinstance(node, ast.Call):
        called, given = ast.unparse(node.func), [_is_zero(each, count, bound) for each in node.args]
        return any(given) if called in ("min", "float", "int") else bool(given) and called == "max" and all(given)
    if isinstance(node, ast.IfExp):
        return _is_zero(node.body if _is_of_start(node.test, count) else node.orelse, count, bound)
    return isinstance(node, ast.ListComp) and _is_zero(node.elt, count, bound)
