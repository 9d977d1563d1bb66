"""Edits of a notebook's module brought back into its JSON text.

The text is changed exactly where the sources of the edited cells are written. Outputs, ids, indentation, escapes and
the order of keys stay byte for byte, as they would not if the JSON were written anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from dllint.files import jsontext
from dllint.files.notebook import Cell, EditRefused, Notebook
from dllint.findings import Edit


def edited(notebook: Notebook, edits: Sequence[Edit]) -> str:
    """The JSON text after edits of the module.

    Raises:
        EditRefused: an edit crosses cells, or touches a line that is not the same in notebook and module.
    """
    text = notebook.raw
    by_cell = edits_by_cell(notebook, edits)
    spans = source_spans(text) if by_cell else []
    for cell, own in reversed(by_cell):  # from the end, so that the spans before stay right
        start, end = spans[cell.number - 1]
        text = text[:start] + _written(text, (start, end), _edited_source(cell, own)) + text[end:]
    return text


def edits_by_cell(notebook: Notebook, edits: Sequence[Edit]) -> list[tuple[Cell, list[Edit]]]:
    """The edits in order, under the cells they are in.

    Raises:
        EditRefused: as :func:`edited`.
    """
    found: list[tuple[Cell, list[Edit]]] = []
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        cell = notebook.cell_at(edit.start)
        if edit.end > cell.end:
            raise EditRefused("the edit crosses cells")
        _refuse_magics(cell, edit)
        if not found or found[-1][0] is not cell:
            found.append((cell, []))
        found[-1][1].append(edit)
    return found


def source_spans(text: str) -> list[jsontext.Span]:
    """Where in the JSON each cell's source is written, for cells of every kind."""
    top = jsontext.members(text, jsontext.start_of_value(text))
    sheets = [top]
    if "cells" not in top:  # format 3
        sheets = [jsontext.members(text, start) for start, _ in jsontext.elements(text, top["worksheets"][0])]
    lists = [jsontext.elements(text, sheet["cells"][0]) for sheet in sheets]
    cells = [jsontext.members(text, start) for spans in lists for start, _ in spans]
    return [cell.get("source") or cell.get("input") or (0, 0) for cell in cells]


def _edited_source(cell: Cell, edits: Sequence[Edit]) -> str:
    source = "".join(cell.original)
    newline = "\r\n" if "\r\n" in source else "\n"
    parts: list[str] = []
    done = 0
    for edit in edits:
        parts += [source[done : cell.to_source(edit.start)], edit.text.replace("\r\n", "\n").replace("\n", newline)]
        done = cell.to_source(edit.end)
    return "".join([*parts, source[done:]])


def _refuse_magics(cell: Cell, edit: Edit) -> None:
    """Lines before a line magic may change as whole lines; its own line, and blank cells, are out of bounds."""
    first, column = cell.line_at(edit.start)
    last, end_column = cell.line_at(edit.end)
    for line in range(first, min(last + 1, len(cell.lines))):
        if cell.kept[line]:
            continue
        whole_lines = edit.text.endswith("\n") or (column == 0 and not edit.text)
        is_line_magic = bool(cell.lines[line].strip())
        if line < last or end_column or not whole_lines or not is_line_magic:
            raise EditRefused("the line is not plain Python in the notebook")


def _written(text: str, span: jsontext.Span, source: str) -> str:
    """``source`` as JSON in the place of what is at ``span``: a string, or a list of lines, as it was."""
    start, end = span
    encode = json.JSONEncoder(ensure_ascii=text.isascii()).encode
    if text[start] == '"':
        return encode(_like(json.loads(text[start:end]), source))
    spans = list(jsontext.elements(text, start))
    literals = [text[first:last] for first, last in spans]
    lines: list[str] = [json.loads(literal) for literal in literals]
    source = _like("".join(lines), source)
    head, tail = _common(lines, source)
    middle = source[sum(map(len, lines[:head])) : len(source) - sum(map(len, lines[len(lines) - tail :]))]
    literals[head : len(lines) - tail] = [encode(line) for line in _split(middle)]
    if not literals or not spans:
        return f"[{','.join(literals)}]"
    margin = text[start + 1 : spans[0][0]]
    comma = text[spans[0][1] : spans[1][0]] if len(spans) > 1 else f",{margin}"
    return f"[{margin}{comma.join(literals)}{text[spans[-1][1] : end]}"


def _like(before: str, after: str) -> str:
    """``after`` without the line end that was added to the source for the module."""
    return after if before.endswith(("\n", "\r")) else after.removesuffix("\n").removesuffix("\r")


def _common(lines: Sequence[str], source: str) -> tuple[int, int]:
    """How many lines at the start and at the end of a list are whole lines of ``source`` too."""
    head, position = 0, 0
    while head < len(lines) and lines[head].endswith("\n") and source.startswith(lines[head], position):
        position += len(lines[head])
        head += 1
    tail, end = 0, len(source)
    while tail < len(lines) - head and source.endswith(line := lines[-1 - tail], position, end):
        if end - len(line) > position and source[end - len(line) - 1] != "\n":
            break
        end -= len(line)
        tail += 1
    return head, tail


def _split(text: str) -> list[str]:
    """Lines as Jupyter writes them: split after each ``\\n`` only."""
    return [line for line in re.split(r"(?<=\n)", text) if line]
