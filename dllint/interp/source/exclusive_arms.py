"""Parts of a statement one of which is never run with the other: the arms of a branch, what is tried and handlers."""

from __future__ import annotations

import ast
from collections.abc import Mapping

Try = ast.Try | ast.TryStar


def goes_without(binding: ast.AST, read: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """Whether what binds a name has certainly not done so where the name is read, as only one of the two is run.

    They are in two arms of a branch, in two handlers, or in what is tried and a handler: what it does last has not been
    done when a handler is. A loop around both may run one after the other.

    Args:
        binding: the node that binds a name.
        read: the node that reads it.
        parents: what is around each node of their function.
    """
    around = {binding: binding}  # each node around what binds the name, with the part of it that is
    while binding in parents:
        around[parents[binding]] = binding
        binding = parents[binding]
    inside = read
    while inside in parents:
        inside, part = parents[inside], inside
        if inside in around:
            return _are_exclusive(inside, around[inside], part)
    return False


def _are_exclusive(statement: ast.AST, binds: ast.AST, reads: ast.AST) -> bool:
    """Whether two parts of a statement are never run after one another; the first binds what the other reads."""
    if isinstance(statement, ast.If):
        return (binds in statement.body and reads in statement.orelse) or (
            binds in statement.orelse and reads in statement.body
        )
    if not isinstance(statement, Try) or not isinstance(reads, ast.ExceptHandler):
        return False
    if isinstance(binds, ast.ExceptHandler) or binds in statement.orelse:
        return not isinstance(statement, ast.TryStar)
    return binds is statement.body[-1] and _binds_at_last(binds)


def _binds_at_last(statement: ast.AST) -> bool:
    """Whether a statement that fails has bound nothing: no part of it can do so after another one has."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return len(statement.names) == 1
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    target = statement.targets[0]
    parts = target.elts if isinstance(target, ast.Tuple) else [target]
    return all(isinstance(each, ast.Name) for each in parts)
