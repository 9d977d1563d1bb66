"""A trace as a drawing: a column for each file, a box for each step, and arrows from one to the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import pairwise

from dllint.findings import Hop
from dllint.report.sources import SourceCache
from dllint.report.text import one_line, visible

_BOX, _HEIGHT, _GAP, _ROW, _TOP = 340, 62, 36, 92, 34  # pixels: a box, between columns, from row to row, the head
_CHARACTERS = 38  # of code or of words in a box


def drawn(trace: Sequence[Hop], sources: SourceCache) -> str:
    """The trace as SVG; empty where it has one step only."""
    if len(trace) < 2:
        return ""
    lanes = list(dict.fromkeys(hop.location.path for hop in trace))
    width = len(lanes) * (_BOX + _GAP)
    height = _TOP + (len(trace) - 1) * _ROW + _HEIGHT + 8
    places = [
        (lanes.index(hop.location.path) * (_BOX + _GAP) + _GAP // 2, _TOP + at * _ROW) for at, hop in enumerate(trace)
    ]
    parts = [*_heads(lanes, height), *_arrows(places)]
    for number, (hop, (x, y)) in enumerate(zip(trace, places, strict=True), start=1):
        parts += _box(hop, x, y, number, number == len(trace), sources)
    label = escape(f"The trace in {len(trace)} steps through {len(lanes)} files", quote=True)
    inside = "".join(parts)
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" aria-label="{label}">'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M0 0L8 4L0 8z"/></marker></defs>{inside}</svg>'
    )


def _heads(lanes: Sequence[str], height: int) -> Iterator[str]:
    """The name of each file over its column, and a line down."""
    for at, path in enumerate(lanes):
        middle = at * (_BOX + _GAP) + _GAP // 2 + _BOX // 2
        yield f'<path class="lane" d="M{middle} {_TOP - 10}V{height}"/>'
        name = escape(_short(visible(path), last=True))
        yield f'<text class="head" x="{middle}" y="16" text-anchor="middle">{name}</text>'


def _arrows(places: Sequence[tuple[int, int]]) -> Iterator[str]:
    """From the bottom of each box to the top of the next."""
    for (x, y), (next_x, next_y) in pairwise(places):
        start, end = x + _BOX // 2, next_x + _BOX // 2
        low, high = y + _HEIGHT, next_y - 1
        middle = (low + high) // 2
        yield f'<path d="M{start} {low}C{start} {middle} {end} {middle} {end} {high}" marker-end="url(#tip)"/>'


def _box(hop: Hop, x: int, y: int, number: int, is_last: bool, sources: SourceCache) -> Iterator[str]:
    location = hop.location
    lines = sources.lines(location)
    code = lines[location.line - 1].strip() if 0 < location.line <= len(lines) else ""
    cell = "" if location.cell is None else f"cell {location.cell}, "
    last = ' class="last"' if is_last else ""
    yield f'<rect{last} x="{x}" y="{y}" width="{_BOX}" height="{_HEIGHT}" rx="6"/>'
    yield f'<text x="{x + 12}" y="{y + 24}">{number}. {escape(_short(one_line(hop.message)))}</text>'
    yield (
        f'<text class="code" x="{x + 12}" y="{y + 47}"><tspan class="dim">{cell}{location.line}</tspan>  '
        f"{escape(_short(visible(code)))}</text>"
    )


def _short(text: str, *, last: bool = False) -> str:
    """At most as much as fits into a box, from the beginning or the end."""
    if len(text) <= _CHARACTERS:
        return text
    return f"…{text[-_CHARACTERS:]}" if last else f"{text[:_CHARACTERS]}…"
