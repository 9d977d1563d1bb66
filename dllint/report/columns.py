"""Source lines laid out in terminal columns: tabs, wide characters, and lines that are too long."""

from __future__ import annotations

import unicodedata
from bisect import bisect_right

from dllint.report.text import visible

TAB = 4
ELLIPSIS = "…"


class Row:
    """One source line, fitted into ``width`` columns.

    ``drop`` code points are left out at its start, and what does not fit at its end; an ellipsis stands for either.
    """

    __slots__ = ("_starts", "text")

    def __init__(self, line: str, drop: int, width: int) -> None:
        shown = line if drop == 0 else ELLIPSIS + line[drop + 1 :] if drop < len(line) else ""
        cells, self._starts = _lay_out(shown[: 2 * width])
        if len(cells) > width:
            kept = self._starts[bisect_right(self._starts, width - 1) - 1]
            cells = [*cells[:kept], ELLIPSIS]
        self._starts.append(len(cells))
        self.text = "".join(cells)

    def column(self, index: int) -> int:
        """The column (from 0) of a code point counted after the ones dropped; those out of view are at the edges."""
        last = len(self._starts) - 1
        return min(self._starts[min(max(index, 0), last)], self._starts[last])


def left_margin(line: str, start: int, end: int, width: int) -> int:
    """How many code points to drop from the start of ``line`` so that ``start`` to ``end`` is seen in ``width``."""
    head = line[:end]
    if len(head) <= width and len(_lay_out(head)[0]) < width:
        return 0
    return max(0, min(start, len(line)) - width // 4)


def _lay_out(text: str) -> tuple[list[str], list[int]]:
    """One string for each column, and the column at which each code point starts.

    The second column of a wide character is an empty string; marks without a width share their base's column.
    """
    cells: list[str] = []
    starts: list[int] = []
    for char in text:
        starts.append(len(cells))
        if char == "\t":
            cells.extend(" " * (TAB - len(cells) % TAB))
            continue
        char = visible(char)
        width = _width(char)
        if width == 0 and cells:
            cells[-1] += char
        else:
            cells.append(char)
            cells.extend([""] * (width - 1))
    return cells, starts


def _width(char: str) -> int:
    if unicodedata.east_asian_width(char) in "WF":
        return 2
    return 0 if unicodedata.category(char) in ("Mn", "Me", "Cf") else 1
