"""Edits of the code at a site, for the fixes that rules offer."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from dllint.findings import Edit
from dllint.interp.source.bindings import blocks_of
from dllint.interp.source.positions import enclosing_definition, sibling_around, statement_around
from dllint.sites import Module, Site
from dllint.syntax.edits import (
    remove_call_wrapper,
    remove_keyword,
    remove_last_item,
    remove_method_call,
    rename_callee,
    replace_call_argument,
)
from dllint.syntax.placed import Edits
from dllint.syntax.statement_edits import (
    insert_statement_after,
    insert_statement_before,
    move_statement,
    remove_statement,
)
from dllint.values import Instance, Symbol

_COMMENT_BEHIND = re.compile(r"[ \t]*,[ \t]*#[^\r\n]*")


def rename_call(call: Site, name: str) -> Edits:
    """Call something else of the same module: ``optim.Adam(...)`` becomes ``optim.AdamW(...)``."""
    module = call.module
    if not isinstance(call.node, ast.Call):
        return Edits()
    return Edits.of(module, rename_callee(module.source, module.tree, call.node, name))


def set_argument(call: Site, name: str, text: str, *, position: int | None = None) -> Edits:
    """Give an argument of a call another value, or add it as a keyword."""
    if not isinstance(call.node, ast.Call):
        return Edits()
    return Edits.of(call.module, replace_call_argument(call.module.source, call.node, name, text, position=position))


def remove_argument(call: Site, name: str) -> Edits:
    """Take a keyword argument out of a call."""
    if not isinstance(call.node, ast.Call):
        return Edits()
    return Edits.of(call.module, remove_keyword(call.module.source, call.node, name))


def unwrap_call(call: Site, argument: ast.expr) -> Edits:
    """Put one of its arguments in the place of a call."""
    if not isinstance(call.node, ast.Call):
        return Edits()
    return Edits.of(call.module, remove_call_wrapper(call.module.source, call.node, argument))


def remove_operation(operation: Symbol) -> Edits:
    """Let what an operation is applied to take its place: ``f(x, ...)`` and ``x.f(...)`` become ``x``.

    A layer is taken out where it is written as the last of a ``Sequential(...)`` or of a list, or where a statement
    of its own appends it.
    """
    place = operation.site
    if place is None or not isinstance(place.node, ast.Call):
        return Edits()
    layer = operation.inputs[0] if operation.inputs else None
    if isinstance(layer, Instance) and layer.site is not None and layer.site.node is place.node:
        return _remove_layer(place)
    if _is_method(place.node, operation):
        is_plain = all(_is_number(each) for each in place.node.args)  # else ``x`` may be a module that is not known
        return Edits.of(place.module, remove_method_call(place.module.source, place.node)) if is_plain else Edits()
    given = _first_given(place.node)
    return unwrap_call(place, given) if given is not None else Edits()


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
        return Edits()
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        call = statement.value
        is_appended = isinstance(call.func, ast.Attribute) and call.func.attr in ("append", "add_module")
        if is_appended and call.args[-1:] == [layer.node]:
            return remove(layer)
    last: ast.AST = layer.node
    for node, outer in pairwise(_around(statement, layer.node)):
        if isinstance(node, ast.Tuple) and node.elts[-1] is last and len(node.elts) == 2:
            last = node  # a name and a layer, in an `OrderedDict`
            continue
        items = node.args if isinstance(node, ast.Call) and _is_sequential(node) else getattr(node, "elts", [])
        is_last = len(items) > 1 and items[-1] is last and not isinstance(outer, ast.Subscript)
        return Edits.of(layer.module, remove_last_item(layer.module.source, items)) if is_last else Edits()
    return Edits()


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
    return Edits.of(start.module, (Edit(begins, source.offset(last.end_lineno, last.end_col_offset), text),))


def add_entry(table: Site, key: str, text: str) -> Edits:
    """Put an entry behind the first one of a dict that is written out, on a line of its own where that is."""
    node = table.node
    if not isinstance(node, ast.Dict) or not node.keys or node.keys[0] is None:
        return Edits()
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
        return Edits.of(table.module, (Edit(comment.end(), comment.end(), f"{entry},"),))
    return Edits.of(table.module, (Edit(behind, behind, f",{entry}"),))


def _bounds(node: Any) -> tuple[tuple[int, int], tuple[int, int]]:
    return (node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset)


def insert_before(place: Site, text: str) -> Edits:
    """Put a statement in front of the statement at a place."""
    module, statement = place.module, statement_around(place)
    if statement is None:
        return Edits()
    return Edits.of(module, insert_statement_before(module.source, module.tree, statement, text))


def insert_after(place: Site, text: str) -> Edits:
    """Put a statement behind the statement at a place, if that goes on there."""
    module, statement = place.module, statement_around(place)
    if statement is None or isinstance(statement, ast.Return | ast.Raise):
        return Edits()
    return Edits.of(module, insert_statement_after(module.source, module.tree, statement, text))


def move_before(place: Site, target: Site) -> Edits:
    """Move the statement at a place in front of that at another place of the same file.

    It is not moved if what it needs is set on the way, or if what stands on the way needs it to come later.
    """
    statement, other = statement_around(place), statement_around(target)
    if statement is None or other is None or target.module is not place.module:
        return Edits()
    module = place.module
    passed = _between(module.tree, (other.end_lineno or other.lineno) + 1, statement.lineno)
    if _depend(statement, passed) or not _set(ast.walk(other)).isdisjoint(_named(ast.walk(statement))):
        return Edits()
    return Edits.of(module, move_statement(module.source, module.tree, statement, before=other))


def move_after(place: Site, target: Site) -> Edits:
    """Move the statement at a place behind that at another place of the same file, or behind the whole of a block.

    It is not moved if it sets what is needed on the way, or needs what is set there.
    """
    statement, other = statement_around(place), statement_around(target)
    if statement is None or other is None or statement is other or target.module is not place.module:
        return Edits()
    module = place.module
    if _depend(statement, _between(module.tree, statement.lineno + 1, (other.end_lineno or other.lineno) + 1)):
        return Edits()
    return Edits.of(module, move_statement(module.source, module.tree, statement, after=other))


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
    module, statement = place.module, statement_around(place)
    if statement is None:
        return Edits()
    return Edits.of(module, remove_statement(module.source, module.tree, statement))


def wrap_in(place: Site, header: str) -> Edits:
    """Put the statement at a place into a block of its own: ``wrap_in(place, "with torch.no_grad():")``.

    Only a statement that has its lines to itself is, and none with a text that goes over several lines, which would get
    the indentation as well. A loop is with all that is in it, if its own place is given, and no other compound
    statement.
    """
    statement = place.node if isinstance(place.node, ast.For | ast.While) else statement_around(place)
    is_loop = isinstance(statement, ast.For | ast.While)
    if statement is None or (any(blocks_of(statement)) and not is_loop) or not _has_its_lines(place.module, statement):
        return Edits()
    source = place.module.source
    begins = source.offset(statement.lineno, statement.col_offset)
    indentation = source.text[source.offset(statement.lineno, 0) : begins]
    lines = range(statement.lineno + 1, (statement.end_lineno or statement.lineno) + 1)
    further = (source.offset(line, 0) for line in lines if source.line_text(line).strip())
    first = Edit(begins, begins, f"{header}{source.newline}{indentation}    ")
    return Edits.of(place.module, (first, *(Edit(start, start, "    ") for start in further)))


def _has_its_lines(module: Module, statement: ast.stmt) -> bool:
    """Whether nothing else stands on the lines of a statement, and no text in it goes over several of them."""
    source: Any = module.source
    before = source.line_text(statement.lineno).encode()[: statement.col_offset]
    behind = source.line_text(statement.end_lineno).encode()[statement.end_col_offset :].strip()
    texts = (node for node in ast.walk(statement) if isinstance(node, ast.Constant | ast.JoinedStr))
    return (
        not before.strip()
        and (not behind or behind.startswith(b"#"))
        and all(text.lineno == text.end_lineno for text in texts)
    )


def rename_attribute(place: Site, name: str) -> Edits:
    """Let an attribute that is read or set have another name: ``p.require_grad`` becomes ``p.requires_grad``."""
    node = place.node
    if not isinstance(node, ast.Attribute) or node.end_lineno is None or node.end_col_offset is None:
        return Edits()
    end = place.module.source.offset(node.end_lineno, node.end_col_offset)
    return Edits.of(place.module, (Edit(end - len(node.attr), end, name),))


_CASTS = frozenset(("float", "double", "half", "long", "int", "bool"))


def cast_argument(call: Site, position: int, name: str, method: str) -> Edits:
    """Cast an argument of a call by a method: ``f(x, y)`` or ``f(x, y.long())`` becomes ``f(x, y.float())``."""
    node: Any = call.node
    if not isinstance(node, ast.Call) or any(isinstance(each, ast.Starred) for each in node.args):
        return Edits()
    at_its_place = node.args[position] if len(node.args) > position else None
    given: Any = next((keyword.value for keyword in node.keywords if keyword.arg == name), at_its_place)
    if given is None:
        return Edits()
    if isinstance(given, ast.Call) and isinstance(given.func, ast.Attribute) and given.func.attr in _CASTS:
        return rename_attribute(Site(call.module, given.func), method)
    return _with_method(call.module, given, method)


def detach_argument(call: Site) -> Edits:
    """Detach the first argument of a call: ``critic(fake)`` becomes ``critic(fake.detach())``."""
    node = call.node
    if not isinstance(node, ast.Call) or not node.args or isinstance(node.args[0], ast.Starred):
        return Edits()
    return _with_method(call.module, node.args[0], "detach")


def _with_method(module: Module, given: Any, method: str) -> Edits:
    """Call a method of what an expression gives."""
    source = module.source
    begin, end = source.offset(given.lineno, given.col_offset), source.offset(given.end_lineno, given.end_col_offset)
    if isinstance(given, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        return Edits.of(module, (Edit(end, end, f".{method}()"),))
    return Edits.of(module, (Edit(begin, begin, "("), Edit(end, end, f").{method}()")))


def spelling_of(dotted: str, at: Site) -> str:
    """How the file of a place writes a module, by its imports: ``nn`` or ``torch.nn``; empty if it has no name for it.

    Only imports at the top of the file count.
    """
    package, _, last = dotted.rpartition(".")
    spellings: list[str] = []
    for node in at.module.tree.body:
        for each in node.names if isinstance(node, ast.Import) else ():
            if each.name == dotted:
                spellings.append(each.asname or dotted)
            elif each.name == package:
                spellings.append(f"{each.asname or package}.{last}")
            elif not each.asname and each.name.startswith(f"{dotted}."):
                spellings.append(dotted)
        if isinstance(node, ast.ImportFrom) and node.module == package and not node.level:
            spellings.extend(each.asname or each.name for each in node.names if each.name == last)
    return min(spellings, key=len, default="")


def misspellings(name: str) -> frozenset[str]:
    """What people write in place of a name by mistake: a letter too few, one twice, or two of them swapped.

    The first letter is right: mistakes there are seen at once.
    """
    places = range(1, len(name))
    missing = {name[:i] + name[i + 1 :] for i in places}
    twice = {name[:i] + name[i] + name[i:] for i in places}
    swapped = {name[:i] + name[i + 1] + name[i] + name[i + 2 :] for i in places if i + 1 < len(name)}
    return frozenset((missing | twice | swapped) - {name})


def misspelled(name: str, known: Iterable[str]) -> str:
    """The known name that a name is a misspelling of; empty if it is none, or may be of several."""
    found = [each for each in known if name in misspellings(each)]
    return found[0] if len(found) == 1 else ""
