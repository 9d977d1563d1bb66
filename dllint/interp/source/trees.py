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


def walk(root: ast.AST) -> Iterator[ast.AST]:
    """The nodes below one in the order of :func:`ast.walk`, in half the time: without contexts and operators."""
    pending = [root]
    for node in pending:  # which grows meanwhile
        yield node
        fields = _fields.get(type(node))
        if fields is None:
            fields = _fields[type(node)] = tuple(field for field in node._fields if field not in _WITHOUT_NODES)
        for field in fields:
            held = getattr(node, field, None)
            if isinstance(held, list):
                pending.extend([each for each in held if isinstance(each, ast.AST)])
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
