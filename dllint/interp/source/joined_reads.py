"""Whether what a function reads of two lists comes together in it, or goes into statistics of each."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from dllint.interp.source.listing_order import own_nodes
from dllint.interp.source.topics import speaks_of

_Parents = Mapping[ast.AST, ast.AST]


def come_together(left: ast.AST, right: ast.AST, function: ast.AST, parents: _Parents) -> bool:
    """Whether entries of two lists may belong together: one sample, call, comparison or returned value has both.

    They do not where each goes only into a statistic of its own list, as its name says: `real_scores[i] =
    score(real[i])` beside `fake_scores[i] = score(fake[i])`. The two are measured as sets then.
    """
    kept, others = (_kept_in(each, function, parents) for each in (left, right))
    if not kept or not others or kept.keys() & others.keys():
        return True
    return not all(speaks_of("score", name) for name in (*kept.values(), *others.values()))


def _kept_in(read: ast.AST, function: ast.AST, parents: _Parents) -> dict[ast.AST, str]:
    """The statements that put what is read into lists and arrays, with the names of these; none if more is done."""
    pending, kept, seen = [_statement(read, parents)], dict[ast.AST, str](), set[str]()
    while pending:
        statement = pending.pop()
        match statement:
            case (
                ast.Assign(targets=[ast.Subscript(value=held)])
                | ast.Expr(value=ast.Call(func=ast.Attribute(value=held, attr="append")))
            ):
                kept[statement] = ast.unparse(held)
            case ast.Assign(targets=[ast.Name(id=name)]):
                if name not in seen:
                    seen.add(name)
                    pending.extend(_uses(name, function, parents))
            case _:
                return {}
    return kept


def _uses(name: str, function: ast.AST, parents: _Parents) -> Iterator[ast.AST]:
    """The statements of a function that read a variable."""
    for node in own_nodes(function):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load):
            yield _statement(node, parents)


def _statement(node: ast.AST, parents: _Parents) -> ast.AST:
    """The statement in which something stands; a loop for what it goes over."""
    while not isinstance(node, ast.stmt) and node in parents:
        node = parents[node]
    return node
