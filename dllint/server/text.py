"""Text as the language server protocol counts it: lines from 0, columns in UTF-8, UTF-16 or UTF-32 code units."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

from lsprotocol.types import Position, Range

_LINE_END = re.compile(r"\r\n?|\n")
_UNITS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


class Text:
    """One version of a text.

    Args:
        content: the text.
        encoding: what columns are counted in: ``utf-8``, ``utf-16`` or ``utf-32``.
    """

    def __init__(self, content: str, encoding: str) -> None:
        self.content = content
        self.encoding = encoding

    @cached_property
    def starts(self) -> list[int]:
        """The offset of the first character of every line."""
        return [0, *(match.end() for match in _LINE_END.finditer(self.content))]

    def offset(self, position: Position) -> int:
        """The offset, in code points, of a position; one behind the end of a line, or of the text, is that end."""
        if position.line >= len(self.starts):
            return len(self.content)
        start = self.starts[position.line]
        line = self._line(position.line)
        if line.isascii() or self.encoding == "utf-32":
            return start + min(position.character, len(line))
        units = 0
        for index, character in enumerate(line):
            if units >= position.character:
                return start + index
            units += units_of(character, self.encoding)
        return start + len(line)

    def position(self, offset: int) -> Position:
        """The position of an offset in code points."""
        offset = max(0, min(offset, len(self.content)))
        line = bisect_right(self.starts, offset) - 1
        start = self.starts[line]
        before = self.content[start : min(offset, start + len(self._line(line)))]
        return Position(line, units_of(before, self.encoding))

    def range(self, start: int, end: int) -> Range:
        """The range between two offsets in code points."""
        return Range(self.position(start), self.position(end))

    def _line(self, number: int) -> str:
        """A line without its end."""
        starts = self.starts
        end = starts[number + 1] if number + 1 < len(starts) else len(self.content)
        return self.content[starts[number] : end].rstrip("\r\n")

    def replaced(self, where: Range | None, text: str) -> Text:
        """The text in which a range, or all, is replaced."""
        if where is None:
            return Text(text, self.encoding)
        start, end = self.offset(where.start), self.offset(where.end)
        return Text(self.content[:start] + text + self.content[end:], self.encoding)


def units_of(text: str, encoding: str) -> int:
    """The number of code units of a text."""
    if text.isascii():
        return len(text)
    codec, width = _UNITS[encoding]
    return len(text.encode(codec, "surrogatepass")) // width
