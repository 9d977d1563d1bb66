"""Calls that a loop makes again and again with the very same arguments, to get other answers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.interp.source.bindings import target_names, targets_in
from dllint.interp.source.nodes import nodes_of


def gets_the_same_each_round(call: ast.Call, rounds: ast.For | ast.comprehension) -> bool:
    """Whether a loop over a range of numbers gives a call variables, and neither binds any of these anew nor changes
    what is in them."""
    given = [*call.args, *(each.value for each in call.keywords)]
    if not given or not all(isinstance(each, ast.Name | ast.Attribute | ast.Constant) for each in given):
        return False
    iterable = rounds.iter
    if not isinstance(iterable, ast.Call) or not isinstance(iterable.func, ast.Name) or iterable.func.id != "range":
        return False
    names = {_whole(each) for each in given if not isinstance(each, ast.Constant)}
    if isinstance(rounds, ast.comprehension):
        return names.isdisjoint(target_names(rounds.target))
    return names.isdisjoint(_changed_in(rounds))


def _changed_in(loop: ast.For) -> Iterator[str]:
    """The variables that a loop binds, sets a part of, or calls a method of for what that does to it."""
    yield from map(_whole, targets_in([loop]))
    for statement in nodes_of(loop).of(ast.Expr):
        if isinstance(statement.value, ast.Call):
            yield _whole(statement.value.func)


def _whole(part: ast.expr) -> str:
    """The variable that an expression is a part of, if it is one."""
    while isinstance(part, ast.Subscript | ast.Attribute):
        part = part.value
    return part.id if isinstance(part, ast.Name) else ""
