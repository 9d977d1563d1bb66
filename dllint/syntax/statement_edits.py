"""Edits of whole statements: one put in before or after another, moved, or removed.

Who owns a comment, what a semicolon joins and where a block ends is libcst's trade, so the statement is taken from its
tree and put into another place there, and the lines that have changed make the edit. Only the outermost statement
around the place is parsed, and only when an edit is asked for.

Each function returns no edits at all where it cannot be sure to leave valid code that means what was asked for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain, takewhile
from typing import TYPE_CHECKING, Any, TypeAlias

from dllint.dataclass import dataclass
from dllint.files.magics import SEPARATOR, split_lines
from dllint.files.source import syntax_problem
from dllint.findings import Edit

if TYPE_CHECKING:
    import libcst as cst

    from dllint.files.source import SourceFile

Edits = tuple[Edit, ...]
_Step: TypeAlias = tuple[Any, str, int]  # a node of libcst, a field of it, and the index in that field
_ALONE = -1  # the index of what is the only one in a field: the ``if`` of an ``elif``, or a block

_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
_DEEPEST = 100
"""How deeply nested code may be that is given to libcst, which overflows the stack where Python itself does not."""


def insert_statement_before(source: SourceFile, tree: ast.Module, statement: ast.stmt, new: str) -> Edits:
    """Put ``new`` (statements, not indented) in front of a statement, above the comments over it."""
    return _insert(source, tree, statement, new, 0)


def insert_statement_after(source: SourceFile, tree: ast.Module, statement: ast.stmt, new: str) -> Edits:
    """Put ``new`` (statements, not indented) behind a statement, which for a compound one is behind its blocks."""
    return _insert(source, tree, statement, new, 1)


def remove_statement(source: SourceFile, tree: ast.Module, statement: ast.stmt) -> Edits:
    """Take a statement out. ``pass`` takes its place if the block would be empty; the comments beside it stay."""
    region = _Region.around(source, tree, statement)
    return region.edits(_without(*region.find(statement), keep_comments=True)) if region is not None else ()


def move_statement(
    source: SourceFile,
    tree: ast.Module,
    statement: ast.stmt,
    *,
    before: ast.stmt | None = None,
    after: ast.stmt | None = None,
) -> Edits:
    """Move a statement, and the comments over and beside it, in front of or behind one that is not within it."""
    region = _Region.around(source, tree, statement)
    target = before or after
    if region is None or target is None or any(node is target for node in ast.walk(statement)):
        return ()
    path, node = region.find(statement)
    put = _insert(source, tree, target, region.text_of(path, node), 0 if before is not None else 1)
    taken = region.edits(_without(path, node, keep_comments=False))
    if not put or not taken or any(one.start < other.end and other.start < one.end for one in put for other in taken):
        return ()
    text = source.text
    for edit in sorted((*put, *taken), key=lambda edit: (edit.start, edit.end), reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return (*put, *taken) if syntax_problem(text) is None else ()


def _insert(source: SourceFile, tree: ast.Module, statement: ast.stmt, new: str, after: int) -> Edits:
    import libcst as cst

    region = _Region.around(source, tree, statement)
    if region is None:
        return ()
    module = _with_comments_in_place(cst.parse_module(new.strip("\r\n") + "\n"))
    return region.edits(_with(*region.find(statement), module.body, after))


@dataclass(frozen=True, slots=True)
class _Region:
    """Whole lines of a source with the outermost statements in them, as libcst reads them.

    ``places`` has the path of each statement in ``module``, from the module down.
    """

    start: int
    text: str
    module: cst.Module
    places: list[tuple[ast.stmt, list[_Step], Any]]

    @classmethod
    def around(cls, source: SourceFile, tree: ast.Module, statement: ast.stmt) -> _Region | None:
        """The lines around a statement, or ``None`` if libcst does not see in them what Python sees."""
        outermost = _outermost(tree, statement)
        if not outermost or _is_deep(outermost):
            return None
        first, last = _with_comments_above(source, _first_line(outermost[0])), outermost[-1].end_lineno or 0
        start, end = source.offset(first, 0), source.offset(last + 1, 0)
        text = source.text[start:end]
        nodes = list(chain.from_iterable(map(_statements, outermost)))
        module, places = _read(text)
        if module is None or len(nodes) != len(places):
            return None
        return cls(start, text, module, [(node, *place) for node, place in zip(nodes, places, strict=True)])

    def find(self, statement: ast.stmt) -> tuple[list[_Step], Any]:
        """The path of a statement, and its node."""
        return next((path, node) for own, path, node in self.places if own is statement)

    def text_of(self, path: Sequence[_Step], node: Any) -> str:
        """The text of a statement, not indented, with the comments over and beside it."""
        import libcst as cst

        if isinstance(node, cst.BaseSmallStatement):
            line = path[-1][0]
            single = node.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
            is_alone = isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1
            node = line.with_changes(body=[single]) if is_alone else cst.SimpleStatementLine([single])
        comments = [line for line in node.leading_lines if line.comment is not None]
        body = [node.with_changes(leading_lines=comments)]
        return cst.Module(body, default_indent=self.module.default_indent, default_newline="\n").code

    def edits(self, changed: cst.Module | None) -> Edits:
        """The edit that makes ``changed`` of the region; none if that is not valid."""
        if changed is None:
            return ()
        code = changed.code if changed.body or changed.footer else ""
        if syntax_problem(code) is not None:
            return ()
        old, new = split_lines(self.text), split_lines(code)
        head = _common(old, new)
        start = self.start + sum(map(len, old[:head]))
        old, new = old[head:], new[head:]
        tail = _common(old[::-1], new[::-1])
        before, after = "".join(old[: len(old) - tail]), "".join(new[: len(new) - tail])
        if before and after:  # within a line
            head = _common(before, after)
            start, before, after = start + head, before[head:], after[head:]
            tail = _common(before[::-1], after[::-1])
            before, after = before[: len(before) - tail], after[: len(after) - tail]
        return (Edit(start, start + len(before), after),) if before != after else ()


@lru_cache(maxsize=4)  # several findings in one function are common, and a long one takes a while
def _read(text: str) -> tuple[cst.Module | None, list[tuple[list[_Step], Any]]]:
    """A text as libcst reads it, if it does, and the paths and nodes of its statements."""
    import libcst as cst

    try:
        module = cst.parse_module(text)
    except cst.ParserSyntaxError:
        return None, []
    module = _with_comments_in_place(module)
    return (module, list(_places(module, []))) if module.code == text else (None, [])


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    """How many items two sequences have in common at the start."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _outermost(tree: ast.Module, statement: ast.stmt) -> list[ast.stmt]:
    """The statements of a module on whose lines a statement is; there are several where semicolons join them."""
    found: list[ast.stmt] = []
    is_inside = False
    for each in tree.body:
        if found and _first_line(each) > (found[-1].end_lineno or 0):
            if is_inside:
                break
            found = []
        found.append(each)
        is_inside = is_inside or any(node is statement for node in _statements(each))
    return found if is_inside else []


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def _with_comments_above(source: SourceFile, line: int) -> int:
    """The first of the comment lines that stand directly above a line, unless they are the head of the file or cell."""
    first = line
    while first > 1 and source.line_text(first - 1).lstrip().startswith("#"):
        first -= 1
        if source.line_text(first).startswith(SEPARATOR.strip()):
            return first + 1
    return first if first > 1 else line


def _is_deep(statements: Sequence[ast.stmt]) -> bool:
    level: list[ast.AST] = list(statements)
    for _ in range(_DEEPEST):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return bool(level)


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """A statement and those in its blocks, in the order of the text."""
    if isinstance(node, ast.stmt):
        yield node
    for name in _BLOCKS:
        block = getattr(node, name, None)
        for child in block if isinstance(block, list) else ():
            yield from _statements(child)


def _places(node: Any, path: list[_Step]) -> Iterator[tuple[list[_Step], Any]]:
    """The paths and nodes of the statements below a node of libcst, in the order of the text."""
    import libcst as cst

    for name in _BLOCKS:
        block = getattr(node, name, None)
        children = enumerate(block) if isinstance(block, Sequence) else [(_ALONE, block)]
        for index, child in children:
            step = (node, name, index)
            if isinstance(child, cst.BaseSmallStatement | cst.BaseCompoundStatement):
                yield [*path, step], child
            if isinstance(child, cst.CSTNode) and not isinstance(child, cst.BaseSmallStatement):
                yield from _places(child, [*path, step])


def _with_comments_in_place(module: cst.Module) -> cst.Module:
    """Give the comments at the top of a module to its first statement, where libcst has those of any other."""
    first: Any = module.body[0]
    first = first.with_changes(leading_lines=(*module.header, *first.leading_lines))
    return module.with_changes(header=(), body=[first, *module.body[1:]])


def _rebuilt(path: Sequence[_Step], node: Any) -> cst.Module:
    """The module with another node at the end of a path."""
    for parent, name, index in reversed(path):
        if index != _ALONE:
            block = getattr(parent, name)
            node = [*block[:index], node, *block[index + 1 :]]
        node = parent.with_changes(**{name: node})
    module: cst.Module = node
    return module


def _with(path: list[_Step], node: Any, new: Sequence[Any], after: int) -> cst.Module | None:
    """The module with statements before (0) or after (1) the one at the end of a path."""
    import libcst as cst

    parent, _, index = path[-1]
    if index == _ALONE:
        return None  # nothing can stand before an elif
    if isinstance(node, cst.BaseSmallStatement):
        if isinstance(parent, cst.SimpleStatementSuite) or index != (len(parent.body) - 1) * after:
            if not all(isinstance(line, cst.SimpleStatementLine) and not line.leading_lines for line in new):
                return None  # does not fit between semicolons
            small = [statement for line in new for statement in line.body]
            body = [*parent.body[: index + after], *small, *parent.body[index + after :]]
            return _rebuilt(path[:-1], parent.with_changes(body=body))
        path, node = path[:-1], parent
    block, _, index = path[-1]
    lines = [*block.body[:index], node, *block.body[index + 1 :]]
    if not after:
        blank = next((n for n, line in enumerate(node.leading_lines) if line.comment), len(node.leading_lines))
        first = new[0].with_changes(leading_lines=(*node.leading_lines[:blank], *new[0].leading_lines))
        lines[index] = node.with_changes(leading_lines=node.leading_lines[blank:])
        new = [first, *new[1:]]
    lines[index + after : index + after] = new
    return _rebuilt(path[:-1], block.with_changes(body=lines))


def _without(path: list[_Step], node: Any, *, keep_comments: bool) -> cst.Module | None:
    """The module without the statement at the end of a path."""
    import libcst as cst

    parent, _, index = path[-1]
    if index == _ALONE:
        return None  # an elif
    if isinstance(node, cst.BaseSmallStatement):
        if len(parent.body) > 1:
            rest = [*parent.body[:index], *parent.body[index + 1 :]]
            if index == len(rest):
                rest[-1] = rest[-1].with_changes(semicolon=node.semicolon)
            return _rebuilt(path[:-1], parent.with_changes(body=rest))
        if isinstance(parent, cst.SimpleStatementSuite):
            return _rebuilt(path[:-1], parent.with_changes(body=[cst.Pass()]))
        path, node = path[:-1], parent
    block, _, index = path[-1]
    left = [line for line in node.leading_lines if keep_comments or line.comment is None]
    beside = getattr(node, "trailing_whitespace", None)
    if keep_comments and beside is not None and beside.comment is not None:
        left.append(cst.EmptyLine(comment=beside.comment, newline=beside.newline))
    rest = [*block.body[:index], *block.body[index + 1 :]]
    if not rest and not isinstance(block, cst.Module):
        rest = [cst.SimpleStatementLine([cst.Pass()], leading_lines=left)]
    elif index < len(rest):
        rest[index] = rest[index].with_changes(leading_lines=(*left, *rest[index].leading_lines))
    else:
        block = block.with_changes(footer=(*left, *block.footer))
    return _rebuilt(path[:-1], block.with_changes(body=rest))
