"""How twins are written: edits of one file of a case, with the imports and settings that they need."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import field

from dllint.dataclass import dataclass
from dllint.findings import Edit
from dllint.testing.variations.source import Code, Definition, first_line, last_line

LIBRARY = "labtools"
"""A library that is nowhere, so that nothing it gives or does is known."""

_BLOCKS = ("body", "orelse", "finalbody")


@dataclass(slots=True)
class Draft:
    """A file under change: edits that do not overlap, and lines that go to its top."""

    code: Code
    edits: list[Edit] = field(default_factory=list)
    head: list[str] = field(default_factory=list)

    def unknown(self, name: str) -> str:
        """The name under which something of a library that is nowhere is imported."""
        fresh = self.code.fresh(name)
        self.head.append(f"from {LIBRARY} import {fresh}")
        return fresh

    def arguments(self, *options: str) -> str:
        """The name of the parsed arguments of the command line, with these options."""
        module, parser, args = (self.code.fresh(name) for name in ("argparse_", "parser_", "args_"))
        added = [f"{parser}.add_argument({option})" for option in options]
        self.head += [f"import argparse as {module}", f"{parser} = {module}.ArgumentParser()", *added]
        self.head.append(f"{args} = {parser}.parse_args()")
        return args

    def replace(self, node: ast.expr | ast.stmt, text: str) -> None:
        """Put a text in the place of a node."""
        self.edits.append(self.code.replace(node, text))

    def above(self, statement: ast.stmt, *lines: str) -> None:
        """Put lines above a statement, as far to the right as it is."""
        indent = self.code.lines[statement.lineno - 1][: column(self.code, statement)]
        self.edits.append(self.code.insert(first_line(statement), 0, "".join(f"{indent}{line}\n" for line in lines)))

    def text(self) -> str | None:
        """The file after the changes, or nothing if that would be no Python."""
        line = _first_of_body(self.code)
        head = "".join(f"{text}\n" for text in dict.fromkeys(self.head))
        text = self.code.edited([*self.edits, *([self.code.insert(line, 0, head)] if head else [])])
        try:
            ast.parse(text)
        except SyntaxError:
            return None
        return text


def column(code: Code, statement: ast.stmt) -> int:
    """The column, in code points, at which a statement starts."""
    line = code.lines[statement.lineno - 1]
    return len(line.encode()[: statement.col_offset].decode())


def _first_of_body(code: Code) -> int:
    """The line on which the first statement after the docstring and the imports from ``__future__`` starts."""
    for index, statement in enumerate(code.tree.body):
        is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not (index == 0 and is_text) and getattr(statement, "module", None) != "__future__":
            return first_line(statement)
    return len(code.lines)


def statement_of(code: Code, node: ast.AST) -> ast.stmt:
    """The innermost statement around a node, or the node itself."""
    while not isinstance(node, ast.stmt):
        node = code.parents[node]
    return node


def block_of(code: Code, statement: ast.stmt) -> list[ast.stmt]:
    """The statements beside a statement, itself among them."""
    parent = code.parents[statement]
    for name in _BLOCKS:
        block: list[ast.stmt] = getattr(parent, name, [])
        if isinstance(block, list) and statement in block:
            return block
    return []


def scope_of(code: Code, node: ast.AST) -> ast.AST:
    """The function, class or module whose code a node is."""
    while node in code.parents:
        node = code.parents[node]
        if isinstance(node, Definition | ast.Lambda):
            return node
    return code.tree


def stands_alone(code: Code, statement: ast.stmt) -> bool:
    """Whether a statement has its lines to itself, so that lines can be put above it and indented."""
    before = code.lines[statement.lineno - 1][: column(code, statement)]
    after = code.lines[last_line(statement) - 1].encode()[statement.end_col_offset or 0 :].decode()
    return not before.strip() and (not after.strip() or after.lstrip().startswith("#"))


def dotted(node: ast.AST) -> str:
    """``a.b.c`` of names and attributes, or nothing."""
    if isinstance(node, ast.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr}" if owner else ""
    return node.id if isinstance(node, ast.Name) else ""


def header(statement: ast.stmt) -> Iterator[ast.AST]:
    """The nodes of a statement, without those of the statements inside it."""
    pending: list[ast.AST] = [statement]
    while pending:
        node = pending.pop()
        yield node
        pending += [
            child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt | ast.ExceptHandler)
        ]


def reads(statement: ast.stmt) -> frozenset[str]:
    """What a statement (of a compound one, its header) reads: names, and attributes of ``self``."""
    names = {dotted(node) for node in header(statement) if isinstance(getattr(node, "ctx", None), ast.Load)}
    own = {".".join(name.split(".")[:2]) for name in names if name.startswith("self.")}
    return frozenset({name for name in names if name and "." not in name and name != "self"} | own)


def assigned_name(statement: ast.AST) -> str:
    """The one name (or attribute of ``self``) that an assignment binds, or nothing."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        name = dotted(statement.targets[0])
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        name = dotted(statement.target)
    else:
        return ""
    return name if name.count(".") <= name.startswith("self.") else ""
