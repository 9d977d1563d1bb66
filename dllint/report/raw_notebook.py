"""Where the lines of a notebook's cells are in the text of the ``.ipynb`` file itself.

GitHub, GitLab and SARIF readers know a notebook as a JSON file and can point at its lines only.
"""

from __future__ import annotations

import json

from dllint.files import jsontext
from dllint.files.magics import split_lines
from dllint.files.notebook_edits import source_spans


def raw_lines(raw: str, cell: int) -> list[int]:
    """The line of ``raw``, from 1, on which each line of a cell is written.

    Args:
        raw: the JSON of a notebook, known to be valid.
        cell: the number of the cell among cells of all kinds, from 1.

    Returns:
        One number for each line of the cell's source; none if there is no such cell.
    """
    spans = source_spans(raw)
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
