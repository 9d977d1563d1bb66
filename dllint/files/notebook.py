"""Jupyter notebooks as Python modules.

All code cells make one module, in their order, so that flow from cell to cell is seen; a separator line stands before
each. A cell keeps its number of lines, and each line that is Python keeps its text, so positions translate line by
line. What is no Python (magics, shell commands, cells in other languages) is replaced, see :mod:`dllint.files.magics`.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from dllint.dataclass import dataclass
from dllint.files.magics import CellCode, python_of, split_lines
from dllint.files.source import SourceError, SyntaxProblem
from dllint.findings import Edit

_SHOWN = 12  # cells in a note on their order


class EditRefused(Exception):  # noqa: N818 - it says what happened
    """An edit that cannot be brought back into the notebook: it crosses cells, or touches a line that is a magic."""


@dataclass(frozen=True, slots=True)
class BrokenCell:
    """A cell that is not Python even without its magics. ``line`` and ``column`` count within it, from 1."""

    cell: int
    message: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Cell:
    """A code cell.

    ``number`` counts among all cells, from 1. ``original`` are the lines the notebook holds, ``lines`` those that stand
    for them in the module from line ``first_line`` and offset ``start`` on, and ``kept`` says which of them are the
    same. The last line ends in a line end also where the notebook has none.
    """

    number: int
    execution_count: int | None
    original: tuple[str, ...]
    lines: tuple[str, ...]
    kept: tuple[bool, ...]
    first_line: int
    start: int

    @property
    def end(self) -> int:
        """The offset in the module after the cell's last line end."""
        return self.start + sum(map(len, self.lines))

    def line_at(self, offset: int) -> tuple[int, int]:
        """The index of the line and the column in it, both from 0, of an offset in the module.

        The end of the cell is column 0 of the line after its last one.
        """
        return _line_of(self.lines, offset - self.start)

    def to_source(self, offset: int) -> int:
        """The offset in the cell's source for one in the module.

        Raises:
            EditRefused: the offset is within a line that is not the same in notebook and module.
        """
        line, column = self.line_at(offset)
        if column and not self.kept[line]:
            raise EditRefused("the line is not plain Python in the notebook")
        return sum(map(len, self.original[:line])) + column

    def to_module(self, offset: int) -> int:
        """The offset in the module for one in the cell's source; within a replaced line, that of its start."""
        line, column = _line_of(self.original, offset)
        if line < len(self.kept) and not self.kept[line]:
            column = 0
        return self.start + sum(map(len, self.lines[:line])) + column


_RawCell = tuple[int, int | None, str]  # number, execution count, source


class Notebook:
    """A notebook: its JSON text ``raw``, its code cells, and the module ``text`` that they make.

    ``broken`` lists the cells that are no Python; they are blank in the module.
    """

    def __init__(self, raw: str, encoding: str, sources: Sequence[_RawCell]) -> None:
        self.raw = raw
        self.encoding = encoding
        self.cells: list[Cell] = []
        self.broken: list[BrokenCell] = []
        parts: list[str] = []
        line, offset = 1, 0
        for number, execution_count, source in sources:
            code = python_of(source)
            line += code.header.count("\n")
            cell = _cell(number, execution_count, source, code, line, offset + len(code.header))
            self.cells.append(cell)
            if code.problem is not None:
                self.broken.append(_broken(number, code.problem))
            parts += [code.header, *cell.lines]
            line, offset = line + len(cell.lines), cell.end
        self.text = "".join(parts)
        self._first_lines = [cell.first_line for cell in self.cells]
        self._starts = [cell.start for cell in self.cells]
        self._by_number = {cell.number: cell for cell in self.cells}

    def locate(self, line: int) -> tuple[int, int]:
        """The cell and the line in it, both from 1, of a line of the module.

        The separator after a cell counts as its last line. A notebook without code has ``(1, 1)`` only.
        """
        if not self.cells:
            return 1, 1
        cell = self.cells[max(bisect_right(self._first_lines, line) - 1, 0)]
        return cell.number, min(max(line - cell.first_line + 1, 1), len(cell.lines))

    def module_line(self, cell: int, line: int) -> int:
        """The line of the module where a line of a code cell is; the inverse of :meth:`locate`."""
        return self._by_number[cell].first_line + line - 1 if self.cells else 1

    def cell_at(self, offset: int) -> Cell:
        """The code cell in which an offset of the module lies (its end included).

        Raises:
            EditRefused: the offset is in a separator.
        """
        index = bisect_right(self._starts, offset) - 1
        if index < 0 or offset > self.cells[index].end:
            raise EditRefused("the place is between two cells")
        return self.cells[index]

    def cell_lines(self, cell: int) -> list[str]:
        """The lines of a code cell as its author sees them, magics and all, without line ends."""
        return [line.rstrip("\r\n") for line in self._by_number[cell].original]

    def execution_order_hint(self) -> list[int]:
        """The numbers of the cells that have been run, in the order in which they last were."""
        run = [(cell.execution_count, cell.number) for cell in self.cells if cell.execution_count is not None]
        return [number for _, number in sorted(run)]

    def order_note(self) -> str:
        """What readers of a finding should know if the cells were last run in another order than they stand in."""
        order = self.execution_order_hint()
        if order == sorted(order):
            return ""
        shown = ", ".join(map(str, order[:_SHOWN])) + (", ..." if len(order) > _SHOWN else "")
        return f"the cells were last run in the order {shown}; dllint reads them from top to bottom"

    def accepts(self, edits: Sequence[Edit]) -> bool:
        """Whether :meth:`apply_edits` would take these edits."""
        from dllint.files.notebook_edits import edits_by_cell

        try:
            edits_by_cell(self, edits)
        except EditRefused:
            return False
        return True

    def apply_edits(self, edits: Sequence[Edit]) -> bytes:
        """The notebook's bytes after edits of the module.

        Nothing outside the sources of the edited cells changes, and in them only the lines that differ are written
        anew. Edits must not overlap; insertions at one place keep their order.

        Raises:
            EditRefused: an edit crosses cells, or touches a line that is not the same in notebook and module.
        """
        from dllint.files.notebook_edits import edited

        return edited(self, edits).encode(self.encoding)


def _cell(number: int, execution_count: int | None, source: str, code: CellCode, first_line: int, start: int) -> Cell:
    original, lines = split_lines(source), list(code.lines)
    if not original[-1].endswith(("\n", "\r")):
        original[-1] += "\n"
        lines[-1] += "\n"
    return Cell(number, execution_count, tuple(original), tuple(lines), tuple(code.kept), first_line, start)


def _broken(number: int, problem: SyntaxProblem) -> BrokenCell:
    return BrokenCell(number, problem.message, problem.line, problem.column)


def _line_of(lines: Sequence[str], offset: int) -> tuple[int, int]:
    ends = list(accumulate(map(len, lines)))
    line = bisect_right(ends, offset)
    return line, offset - (ends[line - 1] if line else 0)


def read_notebook(text: str, encoding: str = "utf-8") -> Notebook:
    """Read a notebook of format 3 or 4 from its JSON text.

    A notebook of another language has no code cells here, and a file with nothing in it is a notebook without cells.

    Raises:
        SourceError: the text is not JSON, or not a notebook.
    """
    if not text.strip():
        return Notebook(text, encoding, [])
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        reason = f"{error.msg} at line {error.lineno}, column {error.colno}"
        raise SourceError(f"not a notebook: {reason}") from error
    except (RecursionError, ValueError) as error:  # nested, or a number with more digits, than Python reads
        raise SourceError(f"not a notebook: {error}") from error
    if not isinstance(content, dict):
        raise SourceError("not a notebook: the JSON is no object")
    cells = list(_all_cells(content))
    return Notebook(text, encoding, list(_code_cells(cells)) if _is_python(content) else [])


def _all_cells(content: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Cells of every kind. Format 3 keeps them in worksheets."""
    sheets = [content] if "cells" in content else content.get("worksheets")
    if not isinstance(sheets, list):
        raise SourceError("not a notebook: it has no list of cells")
    for sheet in sheets:
        cells = sheet.get("cells") if isinstance(sheet, dict) else None
        if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
            raise SourceError("not a notebook: it has no list of cells")
        yield from cells


def _code_cells(cells: Sequence[Mapping[str, Any]]) -> Iterator[_RawCell]:
    for number, cell in enumerate(cells, 1):
        if cell.get("cell_type") != "code" or not _is_python_cell(cell):
            continue
        source = cell.get("source", cell.get("input"))
        if isinstance(source, list) and all(isinstance(part, str) for part in source):
            source = "".join(source)
        if not isinstance(source, str):
            raise SourceError(f"not a notebook: cell {number} has no source")
        count = cell.get("execution_count", cell.get("prompt_number"))
        yield number, count if isinstance(count, int) else None, source


def _is_python(content: Mapping[str, Any]) -> bool:
    """Whether the notebook's kernel runs Python, or does not say what it runs."""
    metadata = content.get("metadata")
    for key, name in (("kernelspec", "language"), ("language_info", "name")):
        table = metadata.get(key) if isinstance(metadata, dict) else None
        language = table.get(name) if isinstance(table, dict) else None
        if isinstance(language, str):
            return "python" in language.lower()
    return True


def _is_python_cell(cell: Mapping[str, Any]) -> bool:
    """Whether a cell is in Python by what editors (VS Code) and format 3 note beside it."""
    metadata = cell.get("metadata")
    editor = metadata.get("vscode") if isinstance(metadata, dict) else None
    language = editor.get("languageId") if isinstance(editor, dict) else cell.get("language")
    return language in (None, "python")
