"""Names that only one arm of a branch binds, and that are read after it in any case: who takes the other arm fails."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.interp.source.bindings import Definition, blocks_of, bound_in
from dllint.interp.source.positions import ancestors
from dllint.interp.source.trees import evaluated, walk
from dllint.sites import Site

_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break, ast.Yield, ast.YieldFrom)
_AGAIN = ast.For | ast.AsyncFor | ast.While | ast.Try
_EXITS = frozenset(("exit", "quit", "_exit", "abort"))


def unbound_after(site: Site) -> tuple[ast.If, ast.Name] | None:
    """A branch around a place one arm of which lacks a name, with where that is read in any case after the branch.

    Python raises `UnboundLocalError` there: nothing else in the function binds the name. What is read under another
    condition may go with the first one, and what a loop does again may have been bound before.
    """
    around = [each for each in ancestors(site) if isinstance(each, ast.stmt)]
    scope = next((index for index, each in enumerate(around) if isinstance(each, Definition)), None)
    function = around[scope] if scope is not None else None
    if not isinstance(function, ast.FunctionDef):
        return None
    inside: ast.AST = site.node
    for index, branch in enumerate(around[:scope]):
        if isinstance(branch, ast.If) and not any(isinstance(each, _AGAIN) for each in around[index:scope]):
            arm = next((block for block in (branch.body, branch.orelse) if _holds(block, inside)), None)
            if arm is None or any(map(_may_leave, arm)):
                return None
            other = branch.orelse if arm is branch.body else branch.body
            read = _read_unbound(function, branch, other, around[index + 1])
            if read is not None:
                return branch, read
        inside = branch
    return None


def _holds(block: list[ast.stmt], node: ast.AST) -> bool:
    return any(node is each or any(node is inner for inner in ast.walk(each)) for each in block)


def _may_leave(statement: ast.stmt) -> bool:
    return any(
        isinstance(each, _LEAVES)
        or (isinstance(each, ast.Call) and (getattr(each.func, "attr", "") or getattr(each.func, "id", "")) in _EXITS)
        for each in walk(statement)
    )


def _read_unbound(scope: ast.FunctionDef, branch: ast.If, other: list[ast.stmt], outer: ast.stmt) -> ast.Name | None:
    """What is read in any case after a branch, and bound in the other one of its arms alone."""
    names = {name for each in other for name in bound_in(walk(each))}
    inside = {id(node) for each in other for node in walk(each)}
    names -= bound_in(node for node in walk(scope) if id(node) not in inside and node is not scope)
    block: list[ast.stmt] = next((each for each in blocks_of(outer) if branch in each), [branch])
    rest = block[block.index(branch) + 1 :]
    reads = (node for part in _in_any_case(rest) for node in evaluated(part) if isinstance(node, ast.Name))
    return next((node for node in reads if node.id in names), None) if names else None


def _in_any_case(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """What the statements of a block evaluate one after the other, up to one after which it may be left."""
    for statement in body:
        if isinstance(statement, ast.If | ast.While):
            yield statement.test
        elif isinstance(statement, ast.For):
            yield statement.iter
        elif isinstance(statement, ast.With):
            yield from (item.context_expr for item in statement.items)
            yield from _in_any_case(statement.body)
        elif isinstance(statement, ast.Expr | ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return):
            yield statement
        if _may_leave(statement):
            return
