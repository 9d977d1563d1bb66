"""Walks over syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator

# Fields that hold no nodes, or only those that say how another one is used: ``Load``, ``Add``, ``Eq``, …
_WITHOUT_NODES = frozenset(
    ("arg", "asname", "attr", "conversion", "ctx", "id", "is_async", "kind", "level", "module", "op", "ops", "rest",
     "simple", "type_comment", "type_ignores")
)  # fmt: skip
_fields: dict[type, tuple[str, ...]] = dict.fromkeys((ast.Constant, ast.Global, ast.Nonlocal, ast.alias), ())


def _fields_of(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a kind of node that may hold others, from now on known."""
    return _fields.setdefault(kind, tuple(field for field in kind._fields if field not in _WITHOUT_NODES))


def children(node: ast.AST) -> list[ast.AST]:
    """What :func:`ast.iter_child_nodes` gives, in half the time: without contexts and operators."""
    found: list[ast.AST] = []
    for field in _fields.get(type(node)) or _fields_of(type(node)):
        held = getattr(node, field, None)
        if isinstance(held, list):
            found += [each for each in held if isinstance(each, ast.AST)]
        elif isinstance(held, ast.AST):
            found.append(held)
    return found


def walk(root: ast.AST) -> Iterator[ast.AST]:
    """The nodes below one in the order of :func:`ast.walk`, without contexts and operators."""
    pending = [root]
    for node in pending:  # which grows meanwhile
        yield node
        fields = _fields.get(type(node))
        if fields is None:
            fields = _fields_of(type(node))
        for field in fields:  # as in `children`, of which a call for each node would take twice as long
            held = getattr(node, field, None)
            if isinstance(held, list):
                pending += [each for each in held if isinstance(each, ast.AST)]
            elif isinstance(held, ast.AST):
                pending.append(held)


_ELEMENTS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)


def evaluated(expression: ast.AST) -> Iterator[ast.AST]:
    """The nodes of an expression that are evaluated in any case: not the second part of an ``and``."""
    pending = [expression]
    for node in pending:  # which grows meanwhile
        if isinstance(node, ast.BoolOp):
            pending.append(node.values[0])
        elif isinstance(node, ast.IfExp):
            pending.append(node.test)
        elif isinstance(node, ast.Compare):
            pending.extend((node.left, node.comparators[0]))
        elif not isinstance(node, _ELEMENTS):
            pending.extend(ast.iter_child_nodes(node))
    yield from pending
