"""The logical lines of a module: which lines each statement takes, and the comments that stand in or above it.

Suppression comments and ``--since`` speak of statements, and they speak of them before, or without, a syntax tree. So
this reads tokens, and where Python's tokenizer gives up it takes each line for a statement: no text makes it fail.
"""

from __future__ import annotations

import re
import tokenize
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING

from dllint.dataclass import dataclass

if TYPE_CHECKING:
    from dllint.files.source import SourceFile

LAST_LINE = 1 << 62
"""More than any file has: the end of what does not end."""

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_SILENT = frozenset((tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING, tokenize.ENDMARKER))


@dataclass(frozen=True, slots=True)
class Statement:
    """A simple statement, or the header of a compound one with its decorators. Lines count from 1."""

    first: int
    last: int
    indent: int


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment without its line end. ``column`` counts code points from 0.

    ``owner`` is the index of the statement it stands in, or of the next one where it has a line of its own; that may
    be one more than there are.
    """

    line: int
    column: int
    text: str
    own_line: bool
    owner: int


@dataclass()
class Layout:
    """The lines, statements and comments of a module, in order.

    ``cells`` are the lines on which the cells of a notebook start. ``exact`` is false where tokens could not be had.
    """

    lines: list[str]
    cells: Sequence[int] = ()
    statements: list[Statement] = field(default_factory=list)
    comments: list[Comment] = field(default_factory=list)
    exact: bool = True

    def statement_at(self, line: int) -> Statement | None:
        """The statement that a line belongs to, if it belongs to one."""
        index = bisect_right(self.statements, line, key=lambda statement: statement.first) - 1
        if index >= 0 and line <= self.statements[index].last:
            return self.statements[index]
        return None

    def owner(self, comment: Comment) -> Statement | None:
        """The statement a comment stands in, or else the next one, if there is one in the same cell."""
        if comment.owner == len(self.statements):
            return None
        owner = self.statements[comment.owner]
        same_cell = bisect_right(self.cells, comment.line) == bisect_right(self.cells, max(owner.first, comment.line))
        return owner if same_cell else None

    def block_end(self, index: int, indent: int) -> int:
        """The last line before the first statement, from the one at ``index`` on, that is indented less."""
        following = self._dedents
        while index < len(self.statements) and self.statements[index].indent >= indent:
            index = following[index]
        return self.statements[index].first - 1 if index < len(self.statements) else LAST_LINE

    @cached_property
    def _dedents(self) -> list[int]:
        """For each statement, the index of the next one that is indented less than it."""
        following = [len(self.statements)] * len(self.statements)
        waiting: list[int] = []  # statements indented ever more, whose dedent has not come yet
        for index, statement in enumerate(self.statements):
            while waiting and self.statements[waiting[-1]].indent > statement.indent:
                following[waiting.pop()] = index
            waiting.append(index)
        return following


def split_lines(text: str) -> list[str]:
    """The lines of a text as Python's tokenizer counts them, line ends kept: form feeds and the like end none."""
    return _LINE.findall(text)


def read_layout(source: SourceFile) -> Layout:
    """Find the statements and comments of a file. No text makes this fail."""
    lines = split_lines(source.text)
    cells = [cell.first_line for cell in source.notebook.cells] if source.notebook else []
    layout = Layout(lines, cells)
    try:
        _read_tokens(layout)
    except (tokenize.TokenError, SyntaxError, ValueError):
        return _by_line(Layout(lines, cells, exact=False))
    return layout


def _tokens(lines: list[str]) -> Iterator[tokenize.TokenInfo]:
    feed = (line.rstrip("\r\n") + "\n" if line.endswith(("\r", "\n")) else line for line in lines)
    return tokenize.generate_tokens(lambda: next(feed, ""))


def _read_tokens(layout: Layout) -> None:
    first: tokenize.TokenInfo | None = None  # of the statement being read, with its decorators
    leader: tokenize.TokenInfo | None = None  # of the logical line being read
    for token in _tokens(layout.lines):
        line, column = token.start
        if token.type == tokenize.COMMENT:
            own_line = not layout.lines[line - 1][:column].strip()
            layout.comments.append(Comment(line, column, token.string, own_line, len(layout.statements)))
        elif token.type == tokenize.NEWLINE:
            if first is not None and leader is not None and leader.string != "@":
                layout.statements.append(Statement(first.start[0], line, first.start[1]))
                first = None
            leader = None
        elif token.type not in _SILENT:
            leader = leader or token
            first = first or token


def _by_line(layout: Layout) -> Layout:
    """Take each line for a statement and all behind a ``#`` for a comment: the best that broken code allows."""
    for number, line in enumerate(layout.lines, 1):
        code, mark, _ = line.partition("#")
        if mark:
            text = line[len(code) :].rstrip("\r\n")
            layout.comments.append(Comment(number, len(code), text, not code.strip(), len(layout.statements)))
        if code.strip():
            layout.statements.append(Statement(number, number, len(code) - len(code.lstrip())))
    return layout
