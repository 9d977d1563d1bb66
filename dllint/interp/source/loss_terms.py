"""What a function returns of the losses that it computes, as it is written."""

from __future__ import annotations

import ast

from dllint.interp.source.batchwise import Sum, as_number, last_bound
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.trees import walk

_MAX_TERMS = 40


def part_taken(returned: ast.expr, added: Sum, loop: ast.AST, call: ast.AST) -> ast.expr | None:
    """What a loop adds up of what a function returns for a call: all of it, or the part that it has unpacked.

    ``loss, parts = criterion(x, y)`` and ``total += loss.item()`` take the first of two.
    """
    name = as_number(added.added)
    targets = [each.targets[0] for each in walk(loop) if isinstance(each, ast.Assign) and each.value is call]
    unpacked = targets[0] if targets and isinstance(targets[0], ast.Tuple | ast.List) else None
    if unpacked is None:
        return returned
    is_of_parts = isinstance(returned, ast.Tuple) and len(returned.elts) == len(unpacked.elts)
    if not isinstance(returned, ast.Tuple) or not is_of_parts or not isinstance(name, ast.Name):
        return None
    pairs = zip(unpacked.elts, returned.elts, strict=True)
    return next((part for target, part in pairs if isinstance(target, ast.Name) and target.id == name.id), None)


def is_term_of(made: ast.AST, expression: ast.expr, function: ast.AST) -> bool:
    """Whether what a function returns is a value that it computes, or a sum that has it as a term.

    A term may have a fixed weight: ``self.alpha * l1 + 0.1 * penalty``. What a size is multiplied with is no mean.
    """
    pending = [expression]
    for _ in range(_MAX_TERMS):
        each = _behind(pending.pop(), function) if pending else None
        if each is made:
            return True
        if isinstance(each, ast.BinOp) and isinstance(each.op, ast.Add | ast.Sub):
            pending += [each.left, each.right]
        elif isinstance(each, ast.BinOp) and isinstance(each.op, ast.Mult):
            pending += [part for part, other in _both_ways(each) if _is_weight(other)]
        elif isinstance(each, ast.BinOp) and isinstance(each.op, ast.Div) and _is_weight(each.right):
            pending.append(each.left)
    return False


def _both_ways(product: ast.BinOp) -> tuple[tuple[ast.expr, ast.expr], ...]:
    return (product.left, product.right), (product.right, product.left)


def _is_weight(node: ast.expr) -> bool:
    """Whether a factor is a number or an attribute of the loss, and no size of a batch."""
    if isinstance(node, ast.BinOp):
        return _is_weight(node.left) and _is_weight(node.right)
    is_own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    is_size = isinstance(node, ast.Attribute) and any(part in node.attr.lower() for part in ("batch", "size", "num"))
    return isinstance(node, ast.Constant) or (is_own and not is_size)


def _behind(expression: ast.expr, function: ast.AST) -> ast.expr:
    """What an expression is as a number, and behind a variable that is bound only once."""
    expression = as_number(expression)
    if isinstance(expression, ast.Name):
        stores = [
            each for each in nodes_of(function).names.get(expression.id, ()) if not isinstance(each.ctx, ast.Load)
        ]
        bound = last_bound(expression.id, function, expression.lineno)
        if bound is not None and len(stores) == 1:
            return as_number(bound)
    return expression
