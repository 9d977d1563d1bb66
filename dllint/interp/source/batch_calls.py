"""The calls that a value in a loop over batches is computed by, as they are written."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator

from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.remainders import SETTING
from dllint.interp.source.trees import walk

_SAYING = frozenset(("debug", "info", "warning", "error", "print"))


def calls_behind(value: ast.expr, loop: ast.AST, known: Container[int]) -> Iterator[ast.Call]:
    """The calls in a value, and in what the loop binds the variables to that it reads.

    Args:
        value: the expression.
        loop: the loop that computes it.
        known: the calls, by identity, that need no looking into.
    """
    bound: dict[str, list[ast.expr]] = {}
    for assigned in nodes_of(loop).of(ast.Assign):
        for target in assigned.targets:
            for name in (each.id for each in walk(target) if isinstance(each, ast.Name)):
                bound.setdefault(name, []).append(assigned.value)
    pending: list[ast.AST] = [value]
    seen: set[str] = set()
    while pending:
        node = pending.pop()
        if id(node) in known:
            continue
        if isinstance(node, ast.Call):
            yield node
        if isinstance(node, ast.Name) and node.id not in seen:
            seen.add(node.id)
            pending.extend(bound.get(node.id, ()))
        pending.extend(ast.iter_child_nodes(node))


def bound_in(loop: ast.AST) -> frozenset[str]:
    """The names that a loop, or a function, binds: what it goes over or is given, and what it assigns."""
    nodes = nodes_of(loop)
    stored = {name for name, uses in nodes.names.items() if any(isinstance(use.ctx, ast.Store) for use in uses)}
    return frozenset(stored | {each.arg for each in nodes.of(ast.arg)})


def root_of(function: ast.expr) -> str:
    """The variable that a method is called of, through attributes and items: `meters` in `meters["acc"].update`."""
    while isinstance(function, ast.Attribute | ast.Subscript):
        function = function.value
    return function.id if isinstance(function, ast.Name) else ""


def may_keep(function: ast.AST) -> bool:
    """Whether a function writes to an object that it does not make itself, or to a variable outside of it.

    A method that is called for what it does, and not for what it returns, writes to its object: ``seen.append(value)``.
    """
    nodes = nodes_of(function)
    if any(True for _ in nodes.of(ast.Global, ast.Nonlocal)):
        return True
    stored = {name for name, uses in nodes.names.items() if any(isinstance(use.ctx, ast.Store) for use in uses)}
    written = [each for each in nodes.of(ast.Attribute, ast.Subscript) if isinstance(each.ctx, ast.Store)]
    called = [each.value.func for each in nodes.of(ast.Expr) if isinstance(each.value, ast.Call)]
    told = [each for each in called if isinstance(each, ast.Attribute) and each.attr not in SETTING | _SAYING]
    return any(root_of(each) not in stored for each in (*written, *told) if root_of(each))
