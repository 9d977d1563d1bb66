"""Edits of the code at a site, for the fixes that rules offer."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from dllint.findings import Edit, Fix, Safety
from dllint.interp.source.positions import enclosing_definition, sibling_around, statement_around
from dllint.sites import Site
from dllint.syntax.edits import (
    remove_call_wrapper,
    remove_last_item,
    remove_method_call,
    rename_callee,
    replace_call_argument,
)
from dllint.syntax.statement_edits import (
    insert_statement_after,
    insert_statement_before,
    move_statement,
    remove_statement,
)
from dllint.values import Instance, Symbol

Edits = tuple[Edit, ...]

_COMMENT_BEHIND = re.compile(r"[ \t]*,[ \t]*#[^\r\n]*")


def rename_call(call: Site, name: str) -> Edits:
    """Call something else of the same module: ``optim.Adam(...)`` becomes ``optim.AdamW(...)``."""
    module = call.module
    return rename_callee(module.source, module.tree, call.node, name) if isinstance(call.node, ast.Call) else ()


def set_argument(call: Site, name: str, text: str, *, position: int | None = None) -> Edits:
    """Give an argument of a call another value, or add it as a keyword."""
    module = call.module
    if not isinstance(call.node, ast.Call):
        return ()
    return replace_call_argument(module.source, call.node, name, text, position=position)


def unwrap_call(call: Site, argument: ast.expr) -> Edits:
    """Put one of its arguments in the place of a call."""
    module = call.module
    return remove_call_wrapper(module.source, call.node, argument) if isinstance(call.node, ast.Call) else ()


def remove_operation(operation: Symbol) -> Edits:
    """Let what an operation is applied to take its place: ``f(x, ...)`` and ``x.f(...)`` become ``x``.

    A layer is taken out where it is written as the last of a ``Sequential(...)`` or of a list, or where a statement
    of its own appends it.
    """
    place = operation.site
    if place is None or not isinstance(place.node, ast.Call):
        return ()
    layer = operation.inputs[0] if operation.inputs else None
    if isinstance(layer, Instance) and layer.site is not None and layer.site.node is place.node:
        return _remove_layer(place)
    if _is_method(place.node, operation):
        module = place.module
        is_plain = all(_is_number(each) for each in place.node.args)  # else ``x`` may be a module that is not known
        return remove_method_call(module.source, place.node) if is_plain else ()
    given = _first_given(place.node)
    return unwrap_call(place, given) if given is not None else ()


def _is_method(node: ast.Call, operation: Symbol) -> bool:
    """Whether an operation is of the form ``x.f(...)``, where ``f`` is applied to ``x``."""
    if operation.name.endswith("()") or not isinstance(node.func, ast.Attribute) or operation.arguments is None:
        return False
    return len(operation.arguments.positional) == len(node.args) + 1


def _is_number(node: ast.expr) -> bool:
    return isinstance(node.operand if isinstance(node, ast.UnaryOp) else node, ast.Constant)


def _first_given(node: ast.Call) -> ast.expr | None:
    """In ``f(x, ...)`` and ``f(input=x)``, the expression ``x``."""
    keyword = next((k.value for k in node.keywords if k.arg == "input"), None)
    if keyword is not None:
        return keyword
    return node.args[0] if node.args and not isinstance(node.args[0], ast.Starred) else None


def _remove_layer(layer: Site) -> Edits:
    statement = statement_around(layer)
    if statement is None:
        return ()
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        is_appended = isinstance(call.func, ast.Attribute) and call.func.attr in ("append", "add_module")
        if is_appended and call.args[-1:] == [layer.node]:
            return remove(layer)
    module = layer.module
    last: ast.AST = layer.node
    for node, outer in pairwise(_around(statement, layer.node)):
        if isinstance(node, ast.Tuple) and node.elts[-1] is last and len(node.elts) == 2:
            last = node  # a name and a layer, in an `OrderedDict`
            continue
        items = node.args if isinstance(node, ast.Call) and _is_sequential(node) else getattr(node, "elts", [])
        is_last = len(items) > 1 and items[-1] is last and not isinstance(outer, ast.Subscript)
        return remove_last_item(module.source, items) if is_last else ()
    return ()


def _around(statement: ast.stmt, inner: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement that an inner node is in, innermost first."""
    parents = {child: node for node in ast.walk(statement) for child in ast.iter_child_nodes(node)}
    while inner is not statement:
        inner = parents[inner]
        yield inner


def _is_sequential(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return str(name).endswith("Sequential")


def replace_range(start: Site, text: str, *, end: Site | None = None) -> Edits:
    """Put ``text`` in the place of a node, or of everything from one node to the end of another."""
    source = start.module.source
    first: Any = start.node
    last: Any = (end or start).node
    begins = source.offset(first.lineno, first.col_offset)
    return (Edit(begins, source.offset(last.end_lineno, last.end_col_offset), text),)


def add_entry(table: Site, key: str, text: str) -> Edits:
    """Put an entry behind the first one of a dict that is written out, on a line of its own where that is."""
    node = table.node
    if not isinstance(node, ast.Dict) or not node.keys or node.keys[0] is None:
        return ()
    source = table.module.source
    first, value = node.keys[0], node.values[0]
    assert value.end_lineno is not None and value.end_col_offset is not None
    begins, ends = (source.offset(line, column) for line, column in _bounds(first))
    behind = source.offset(value.end_lineno, value.end_col_offset)
    is_same_line = len(node.keys) > 1 and node.keys[1] is not None and node.keys[1].lineno == first.lineno
    line_start = source.text.rfind("\n", 0, begins) + 1
    gap = " " if is_same_line or node.lineno == first.lineno else f"\n{source.text[line_start:begins]}"
    quote = source.text[ends - 1]
    entry = f"{gap}{quote}{key}{quote}: {text}"
    comment = _COMMENT_BEHIND.match(source.text, behind)
    if comment is not None:
        return (Edit(comment.end(), comment.end(), f"{entry},"),)
    return (Edit(behind, behind, f",{entry}"),)


def _bounds(node: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def insert_before(place: Site, text: str) -> Edits:
    """Put a statement in front of the statement at a place."""
    module = place.module
    statement = statement_around(place)
    return insert_statement_before(module.source, module.tree, statement, text) if statement is not None else ()


def insert_after(place: Site, text: str) -> Edits:
    """Put a statement behind the statement at a place, if that goes on there."""
    module = place.module
    statement = statement_around(place)
    if statement is None or isinstance(statement, ast.Return | ast.Raise):
        return ()
    return insert_statement_after(module.source, module.tree, statement, text)


def move_before(place: Site, target: Site) -> Edits:
    """Move the statement at a place in front of that at another place of the same file.

    It is not moved if what it needs is set on the way, or if what stands on the way needs it to come later.
    """
    statement, other = statement_around(place), statement_around(target)
    if statement is None or other is None or target.module is not place.module:
        return ()
    module = place.module
    passed = _between(module.tree, (other.end_lineno or other.lineno) + 1, statement.lineno)
    if _depend(statement, passed) or not _set(ast.walk(other)).isdisjoint(_named(ast.walk(statement))):
        return ()
    return move_statement(module.source, module.tree, statement, before=other)


def move_after(place: Site, target: Site) -> Edits:
    """Move the statement at a place behind that at another place of the same file, or behind the whole of a block.

    It is not moved if it sets what is needed on the way, or needs what is set there.
    """
    statement, other = statement_around(place), statement_around(target)
    if statement is None or other is None or statement is other or target.module is not place.module:
        return ()
    module = place.module
    if _depend(statement, _between(module.tree, statement.lineno + 1, (other.end_lineno or other.lineno) + 1)):
        return ()
    return move_statement(module.source, module.tree, statement, after=other)


def _between(tree: ast.Module, first: int, end: int) -> list[ast.AST]:
    """The names and attributes on the lines from ``first`` to before ``end``."""
    places = (node for node in ast.walk(tree) if isinstance(node, ast.Name | ast.Attribute))
    return [node for node in places if first <= node.lineno < end]


def _depend(statement: ast.stmt, others: Iterable[ast.AST]) -> bool:
    """Whether one of them sets what the other names: the order of the two matters."""
    passed = list(others)
    own = list(ast.walk(statement))
    return not _set(passed).isdisjoint(_named(own)) or not _set(own).isdisjoint(_named(passed))


def _named(nodes: Iterable[ast.AST]) -> set[str]:
    return {ast.unparse(node) for node in nodes if isinstance(node, ast.Name | ast.Attribute)}


def _set(nodes: Iterable[ast.AST]) -> set[str]:
    return _named(node for node in nodes if isinstance(getattr(node, "ctx", None), ast.Store))


def is_bound_at(place: Site, name: str, made: Site | None) -> bool:
    """Whether a name stands, at a place, for what was made and assigned to it elsewhere in the same file."""
    statement = statement_around(made) if made is not None else None
    if made is None or statement is None or made.module is not place.module or not _binds(statement, name):
        return False
    here, there = enclosing_definition(place), enclosing_definition(made)
    if here is there:
        return statement.lineno < place.line
    return there is None and here is not None and not any(_binds(node, name) for node in ast.walk(here))


def _binds(node: ast.AST, name: str) -> bool:
    """Whether a node is the assignment of one name, or a parameter of it."""
    if isinstance(node, ast.arg):
        return node.arg == name
    return isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [name]


def beside(place: Site, others: Sequence[Site]) -> Site | None:
    """The statement in the block of a place that one of some other places is in: the loop, or the call of a helper."""
    found = next((sibling for other in others if (sibling := sibling_around(place, other)) is not None), None)
    return Site(place.module, found) if found is not None else None


def remove(place: Site) -> Edits:
    """Take out the statement at a place."""
    module = place.module
    statement = statement_around(place)
    return remove_statement(module.source, module.tree, statement) if statement is not None else ()


def offer(message: str, edits: Sequence[Edit], safety: Safety, *, of: Site, at: Site) -> list[Fix]:
    """The fix with these edits of the file of ``of``, if there are any and a finding ``at`` a place can carry them."""
    return [Fix(message, tuple(edits), safety)] if edits and of.module is at.module else []
