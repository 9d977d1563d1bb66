"""The statement and the scope around a place in the source, found by position when a finding needs them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from dllint.interp.source.bindings import Definition, blocks_of
from dllint.interp.source.nodes import nodes_of
from dllint.sites import Site

_LEAVES = ast.Return | ast.Raise | ast.Continue | ast.Break


def enclosing_scope(site: Site) -> str:
    """``Class.method``, ``function`` or an empty string: the definitions around a place."""
    names = [node.name for node in _path(site) if isinstance(node, Definition) and node is not site.node]
    return ".".join(names)


def enclosing_definition(site: Site) -> ast.AST | None:
    """The innermost function or class around a place; None at the top of a module."""
    around = [node for node in _path(site) if isinstance(node, Definition) and node is not site.node]
    return around[-1] if around else None


def enclosing_statement(site: Site) -> str:
    """The innermost statement around a place as source with its white space collapsed; of a block, its header."""
    statements = list(_path(site))
    if not statements:
        return ""
    statement = statements[-1]
    source = site.module.source
    first = statement.lineno
    last = statement.end_lineno or first
    body = next(blocks_of(statement), None)
    if body:
        last = max(first, body[0].lineno - 1)
    return " ".join(" ".join(source.line_text(line) for line in range(first, last + 1)).split())


def statement_around(site: Site) -> ast.stmt | None:
    """The statement that a place is or that is around it, unless the place is in the header of a compound one."""
    if isinstance(site.node, ast.stmt):
        return site.node
    statements = list(_path(site))
    return statements[-1] if statements and not any(blocks_of(statements[-1])) else None


def is_never_reached(site: Site) -> bool:
    """Whether a statement before a place, in a block around it, leaves in any case, or never ends.

    What stands after a ``return``, or after a ``while True`` without ``break``.
    """
    around = list(_path(site))
    return any(
        (isinstance(statement, _LEAVES) or _is_endless(statement))
        and any(later in around for later in block[index + 1 :])
        for outer in around
        for block in blocks_of(outer)
        for index, statement in enumerate(block)
    )


def _is_endless(statement: ast.stmt) -> bool:
    """Whether a loop goes on until something leaves the function, or ends the program."""
    if not isinstance(statement, ast.While) or not isinstance(statement.test, ast.Constant) or not statement.test.value:
        return False
    pending: list[ast.AST] = list(statement.body)
    for node in pending:  # which grows meanwhile
        if isinstance(node, ast.Break):
            return False
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):  # whose own breaks leave nothing more
            pending += node.orelse
        elif not isinstance(node, Definition):
            pending += ast.iter_child_nodes(node)
    return True


def is_last_time(site: Site, loop: ast.AST) -> bool:
    """Whether a loop is left after a place in it, by a ``return`` or ``break`` in a block around that: no next time."""
    around = list(_path(site))
    if loop not in around:
        return False
    inside = around[around.index(loop) :]
    leaves = ast.Return if any(isinstance(each, ast.For | ast.While) for each in inside[1:]) else ast.Return | ast.Break
    blocks = [block for outer in inside for block in blocks_of(outer) if not any(each is loop for each in block)]
    return any(
        isinstance(statement, leaves)
        for block in blocks
        for index, inner in enumerate(block)
        if inner in inside
        for statement in block[index:]
    )


def ancestors(site: Site) -> Iterator[ast.AST]:
    """The nodes around a place, innermost first: expressions, statements, definitions, and the module last."""
    statements = list(_path(site))
    if not statements:
        return
    innermost = statements[-1]
    around = nodes_of(innermost).around
    node = around.get(site.node) or around.get(_twin(site.node, innermost))
    while node is not None:
        yield node
        node = around.get(node)
    yield from (each for each in reversed(statements) if each is not site.node and each is not innermost)
    yield site.module.tree


def _twin(node: ast.AST, tree: ast.AST) -> ast.AST:
    """The node at a place in a tree that was made again of the same text; the node itself where there is none."""
    place = _place_of(node)
    return next((each for each in ast.walk(tree) if _place_of(each) == place), node) if len(place) > 1 else node


def _place_of(node: ast.AST) -> tuple[object, ...]:
    """What a node is, and where it begins and ends, if it is one that stands somewhere."""
    return (type(node), *(getattr(node, name) for name in node._attributes if hasattr(node, name)))


def sibling_around(site: Site, other: Site) -> ast.stmt | None:
    """The statement around another place that stands in the same block as the statement around a place."""
    statement = statement_around(site)
    if statement is None or other.module is not site.module:
        return None
    parent = next((outer for outer in reversed(list(_path(site))) if outer is not statement), None)
    blocks = blocks_of(parent) if parent is not None else (site.module.tree.body,)
    block = next((block for block in blocks if any(each is statement for each in block)), [])
    return next((each for each in _path(other) if any(each is sibling for sibling in block)), None)


def _path(site: Site) -> Iterator[ast.stmt]:
    """The statements around a place, outermost first."""
    line = getattr(site.node, "lineno", None)
    tree: Any = getattr(site.module, "tree", None)
    if line is None or tree is None:
        return
    column = getattr(site.node, "col_offset", 0)
    blocks: list[list[ast.stmt]] = [tree.body]
    while blocks:
        around = next((s for s in blocks.pop() if _contains(s, line, column)), None)
        if around is None:
            continue
        yield around
        blocks = list(blocks_of(around))


def _contains(statement: ast.stmt, line: int, column: int) -> bool:
    first = statement.lineno
    for decorator in getattr(statement, "decorator_list", ()):
        first = min(first, decorator.lineno)
    if not first <= line <= (statement.end_lineno or first):
        return False
    if line == first and column < statement.col_offset and first == statement.lineno:
        return False
    return not (line == statement.end_lineno and column >= (statement.end_col_offset or 0) and line != first)
