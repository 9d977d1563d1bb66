"""The text of a module with its syntax tree, and edits of that text by position."""

from __future__ import annotations

import ast
import io
import symtable
import tokenize
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path

from dllint.files.source import source_from_text
from dllint.findings import Edit

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_DYNAMIC = frozenset(("eval", "exec", "globals", "locals", "vars", "__all__"))
_STRING_STARTS = {"STRING", "FSTRING_START", "TSTRING_START"}
_STRING_ENDS = {"FSTRING_END", "TSTRING_END"}


class Code:
    """A module. Lines count from 1; ``\\n`` ends each of them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self._source = source_from_text(text, Path("module.py"))

    @cached_property
    def lines(self) -> list[str]:
        return self.text.split("\n")

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the tree, in the order of ``ast.walk``, which is walked many times for one case."""
        return list(ast.walk(self.tree))

    @cached_property
    def spans(self) -> list[tuple[ast.expr | ast.stmt, tuple[int, int]]]:
        """The expressions and statements, outer ones first, and where each begins and ends."""
        return [(node, self.span(node)) for node in self.nodes if isinstance(node, ast.expr | ast.stmt)]

    @cached_property
    def words(self) -> frozenset[str]:
        """All names in the module, so that a new one can be found."""
        fields = (value for node in self.nodes for _, value in ast.iter_fields(node))
        return frozenset(str(value) for value in fields if isinstance(value, str))

    def fresh(self, name: str) -> str:
        """``name``, with underscores behind it if it is taken."""
        while name in self.words:
            name += "_"
        return name

    def replace(self, node: ast.expr | ast.alias | ast.stmt, text: str) -> Edit:
        """The edit that puts ``text`` in the place of a node."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self._source.offset(node.lineno, node.col_offset)
        return Edit(start, self._source.offset(node.end_lineno, node.end_col_offset), text)

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """The offsets at which a node begins and ends."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self._source.offset(node.lineno, node.col_offset)
        return start, self._source.offset(node.end_lineno, node.end_col_offset)

    def segment(self, node: ast.expr | ast.stmt) -> str:
        """The text of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        """The node that each node but the module stands in."""
        return {child: node for node in self.nodes for child in ast.iter_child_nodes(node)}

    def insert(self, line: int, column: int, text: str) -> Edit:
        """The edit that puts ``text`` at a column (in code points) of a line."""
        start = self._source.line_starts[line - 1] + column
        return Edit(start, start, text)

    def edited(self, edits: Iterable[Edit]) -> str:
        """The text after edits that do not overlap."""
        text = self.text
        for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
            text = text[: edit.start] + edit.text + text[edit.end :]
        return text

    @cached_property
    def string_lines(self) -> frozenset[int]:
        """The lines that begin inside a string: their indentation is part of a value."""
        found: set[int] = set()
        starts: list[int] = []
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            kind = tokenize.tok_name[token.type]
            if kind in _STRING_STARTS:
                starts.append(token.start[0])
            if kind == "STRING" or kind in _STRING_ENDS:
                found.update(range(starts.pop() + 1, token.end[0] + 1))
        return frozenset(found)

    @cached_property
    def otherwise_bound(self) -> frozenset[str]:
        """The names that something other than an import binds, anywhere in the module."""
        return frozenset(_bound_without_import(self.nodes))

    @cached_property
    def names_in_strings(self) -> frozenset[str]:
        """Names read inside f-strings, where positions are not exact before Python 3.12."""
        return frozenset(
            name.id
            for node in self.nodes
            if type(node).__name__ in ("JoinedStr", "TemplateStr")
            for name in ast.walk(node)
            if isinstance(name, ast.Name)
        )

    @cached_property
    def is_dynamic(self) -> bool:
        """Whether names are looked up in ways that a change of scope or name would break."""
        return any(
            (isinstance(node, ast.ImportFrom) and node.names[0].name == "*")
            or (isinstance(node, ast.Name) and node.id in _DYNAMIC)
            for node in self.nodes
        )

    @cached_property
    def local_imports(self) -> frozenset[ast.AST]:
        """The imports inside functions and classes."""
        scopes = (node for node in self.nodes if isinstance(node, Definition))
        inner = (node for scope in scopes for node in ast.walk(scope))
        return frozenset(node for node in inner if isinstance(node, ast.Import | ast.ImportFrom))

    @cached_property
    def module_names(self) -> frozenset[str]:
        """The names that the module binds at its top level."""
        symbols = symtable.symtable(self.text, "module.py", "exec").get_symbols()
        return frozenset(s.get_name() for s in symbols if s.is_assigned() or s.is_imported() or s.is_namespace())

    @cached_property
    def imports(self) -> list[ast.Import | ast.ImportFrom]:
        """The imports at the top level."""
        return [node for node in self.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]

    def indented(self, first: int, last: int, depth: int = 1) -> Iterator[str]:
        """Lines, some levels deeper."""
        for number in range(first, last + 1):
            line = self.lines[number - 1]
            yield line if not line or number in self.string_lines else depth * "    " + line


def needs(definition: ast.stmt) -> frozenset[str]:
    """The names that a function or class reads and does not bind itself, when it is defined or when it is called."""
    module = symtable.symtable(ast.unparse(definition), "module.py", "exec")
    names = {symbol.get_name() for symbol in module.get_symbols() if symbol.is_referenced()}
    pending = list(module.get_children())
    while pending:
        table = pending.pop()
        names.update(symbol.get_name() for symbol in table.get_symbols() if symbol.is_global())
        pending.extend(table.get_children())
    return frozenset(names)


@lru_cache(maxsize=64)
def code_of(text: str) -> Code:
    """The code with this text; the variations of one case share it."""
    return Code(text)


def _bound_without_import(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, Definition):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name
        elif isinstance(node, ast.MatchMapping) and node.rest:
            yield node.rest
        elif isinstance(node, ast.Global | ast.Nonlocal):
            yield from node.names


def first_line(statement: ast.stmt) -> int:
    """The line on which a statement starts, with its decorators."""
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(node.lineno for node in decorators)])


def last_line(statement: ast.stmt) -> int:
    assert statement.end_lineno is not None
    return statement.end_lineno


def share_lines(statements: list[ast.stmt]) -> bool:
    """Whether two statements stand on one line, so that lines cannot be moved alone."""
    return any(first_line(after) <= last_line(before) for before, after in pairwise(statements))


def module_name(file: str) -> str:
    """The dotted name by which a file of the project is imported."""
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def imports_of(code: Code) -> Iterator[ast.Import | ast.ImportFrom]:
    """All import statements of a module, nested ones included."""
    yield from (node for node in code.nodes if isinstance(node, ast.Import | ast.ImportFrom))


def is_imported(file: str, others: Iterable[Code]) -> bool:
    """Whether another file of the project imports this one."""
    name = module_name(file)
    last = name.rpartition(".")[2]
    return any(
        last in (alias.name.rpartition(".")[2] for alias in statement.names)
        or last == (getattr(statement, "module", None) or "").rpartition(".")[2]
        for code in others
        for statement in imports_of(code)
    )
