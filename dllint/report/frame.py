"""Code frames: source lines with their numbers, and the range in question underlined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dllint.dataclass import dataclass
from dllint.findings import Location
from dllint.report.columns import Row, left_margin
from dllint.report.style import Style

_LONGEST = 7  # lines of a range shown in full; the middle of a longer one is left out
_HEAD, _TAIL = 4, 2


@dataclass(frozen=True, slots=True)
class Layout:
    """How frames are laid out: digits in the line numbers, columns in all, colors, and columns left free before."""

    digits: int
    width: int
    style: Style
    indent: int = 0

    @property
    def margin(self) -> str:
        """The free columns."""
        return " " * self.indent

    @property
    def code_width(self) -> int:
        """The columns left for code beside the line numbers and the bar."""
        return max(16, self.width - self.indent - self.digits - 3)

    def row(self, number: int | None, text: str, bar: str = "|") -> str:
        """One line of a frame: number, bar, text; without trailing space."""
        gutter = " " * self.digits if number is None else f"{number:>{self.digits}}"
        return f"{self.margin}{self.style.paint(f'{gutter} {bar}', 'bold', 'blue')} {text}".rstrip()

    def gap(self, text: str) -> str:
        """The line of a frame that stands for lines left out; ``text`` is where the code would be."""
        return f"{self.margin}{self.style.paint('...', 'bold', 'blue')}{' ' * self.digits}{text}"


def frame(lines: Sequence[str], location: Location, layout: Layout, *, mark: str, tone: str, around: int) -> list[str]:
    """The lines of ``location``, marked with ``mark``, with up to ``around`` lines before and after it.

    Args:
        lines: the text that the line numbers of ``location`` count in (a file, or a cell of a notebook).
        mark: the character that underlines the range.
        tone: the color of the marks.

    Returns:
        The rows of the frame; none when the place does not exist in ``lines`` (the file has changed since).
    """
    first, last = location.line, min(location.end_line, len(lines))
    if not 1 <= first <= last:
        return []
    before = _trim(lines, range(max(1, first - around), first))
    after = _trim(lines, range(last + 1, min(last + around, len(lines)) + 1))
    draw = _underlined if first == last else _bracketed
    return list(draw(lines, location, (before, range(first, last + 1), after), layout, mark, tone))


def _trim(lines: Sequence[str], numbers: range) -> range:
    """``numbers`` without the blank lines at either end."""
    kept = [number for number in numbers if lines[number - 1].strip()]
    return range(kept[0], kept[-1] + 1) if kept else range(0)


_Parts = tuple[range, range, range]


def _underlined(
    lines: Sequence[str], location: Location, parts: _Parts, layout: Layout, mark: str, tone: str
) -> Iterator[str]:
    before, (number, *_), after = parts
    text = lines[number - 1]
    start = location.column - 1
    end = len(text) if location.end_line > number else min(location.end_column - 1, len(text))
    end = max(end, start + 1)
    width = layout.code_width
    drop = left_margin(text, start, end, width)
    yield from (layout.row(near, Row(lines[near - 1], drop, width).text) for near in before)
    row = Row(text, drop, width)
    yield layout.row(number, row.text)
    left, right = row.column(start - drop), row.column(end - drop)
    marks = mark * max(1, min(right, width) - left)
    yield layout.row(None, " " * left + layout.style.paint(marks, "bold", tone))
    yield from (layout.row(near, Row(lines[near - 1], drop, width).text) for near in after)


def _bracketed(
    lines: Sequence[str], location: Location, parts: _Parts, layout: Layout, mark: str, tone: str
) -> Iterator[str]:
    """A range over several lines: a bracket runs from its first character down to its last."""
    before, inside, after = parts
    width = layout.code_width - 2
    first = lines[inside[0] - 1]
    start = location.column - 1
    drop = left_margin(first, start, start + 1, width)

    def row(number: int, edge: str) -> str:
        code = Row(lines[number - 1], drop, width).text
        return layout.row(number, f"{layout.style.paint(edge, 'bold', tone)} {code}")

    yield from (row(number, " ") for number in before)
    opens_line = not first[:start].strip()
    yield row(inside[0], "/" if opens_line else " ")
    if not opens_line:
        reach = Row(first, drop, width).column(start - drop)
        yield layout.row(None, layout.style.paint(f" {'_' * (reach + 1)}{mark}", "bold", tone))
    for number in _shortened(inside):
        yield layout.gap(layout.style.paint("|", "bold", tone)) if number is None else row(number, "|")
    final = lines[inside[-1] - 1]
    end = max(location.end_column - 2, 0) if inside[-1] == location.end_line else max(len(final) - 1, 0)
    reach = Row(final, drop, width).column(end - drop)
    yield layout.row(None, layout.style.paint(f"|{'_' * (min(reach, width - 1) + 1)}{mark}", "bold", tone))
    yield from (row(number, " ") for number in after)


def _shortened(inside: range) -> Iterator[int | None]:
    """The lines after the first one, with ``None`` for those left out of a long range."""
    if len(inside) <= _LONGEST:
        yield from inside[1:]
        return
    yield from inside[1:_HEAD]
    yield None
    yield from inside[-_TAIL:]
