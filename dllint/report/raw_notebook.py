"""Where the lines of a notebook's cells are in the text of the ``.ipynb`` file itself.

GitHub, GitLab and SARIF readers know a notebook as a JSON file and can point at its lines only.
"""

from __future__ import annotations

import json

from dllint.files import jsontext
from dllint.files.magics import split_lines


def raw_lines(raw: str, cell: int) -> list[int]:
    """The line of ``raw``, from 1, on which each line of a cell is written.

    Args:
        raw: the JSON of a notebook, known to be valid.
        cell: the number of the cell among cells of all kinds, from 1.

    Returns:
        One number for each line of the cell's source; none if there is no such cell.
    """
    spans = _source_spans(raw)
    if not 1 <= cell <= len(spans):
        return []
    start, end = spans[cell - 1]
    pieces = [(start, end)] if raw[start] == '"' else list(jsontext.elements(raw, start))
    found: list[int] = []
    line, seen = 1, 0
    open_line = False  # the last piece stopped within a line
    for first, last in pieces:
        line += raw.count("\n", seen, first)
        seen = first
        source: str = json.loads(raw[first:last])
        if source:
            found += [line] * (len(split_lines(source)) - open_line)
            open_line = not source.endswith(("\n", "\r"))
    return found


def _source_spans(raw: str) -> list[jsontext.Span]:
    """Where each cell's source is, for cells of every kind. Format 3 keeps cells in worksheets."""
    top = jsontext.members(raw, jsontext.start_of_value(raw))
    sheets = [top]
    if "cells" not in top:
        sheets = [jsontext.members(raw, at) for at, _ in jsontext.elements(raw, top["worksheets"][0])]
    cells = [jsontext.members(raw, at) for sheet in sheets for at, _ in jsontext.elements(raw, sheet["cells"][0])]
    return [cell.get("source", cell.get("input", (0, 0))) for cell in cells]
