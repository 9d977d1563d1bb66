"""Walks over syntax trees: the nodes below one, and what is around each."""

from __future__ import annotations

import ast

from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.trees import children, walk

SOURCE = """
import os as system

@decorate
async def run(a, *b, c=1, **d) -> int:
    global counter
    async for x, *rest in a[1:2]:
        if x not in rest or -x < 3 <= counter:
            yield f"{x!r:>{c}}"
    match d:
        case {"k": [1, *others], **rest} if others:
            return (lambda q: q @ a)(b)
    with open(a) as file, file:
        total: int = sum(i for i in b if i)
        total += 1
    try:
        del a
    except (ValueError, TypeError) as error:
        raise RuntimeError from error
"""
_OMITTED = (ast.expr_context, ast.operator, ast.cmpop, ast.unaryop, ast.boolop)


def _plain(nodes: object) -> list[ast.AST]:
    return [node for node in nodes if not isinstance(node, _OMITTED)]  # type: ignore[attr-defined]


def test_walks_leave_out_contexts_and_operators_alone() -> None:
    tree = ast.parse(SOURCE)
    assert list(walk(tree)) == _plain(ast.walk(tree))
    for node in ast.walk(tree):
        assert children(node) == _plain(ast.iter_child_nodes(node))


def test_what_is_around_a_node_is_its_parent() -> None:
    tree = ast.parse(SOURCE)
    around = nodes_of(tree).around
    assert around == {inner: node for node in ast.walk(tree) for inner in _plain(ast.iter_child_nodes(node))}
    assert tree not in around
