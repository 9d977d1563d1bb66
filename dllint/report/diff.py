"""A fix as a small diff, computed around its edits alone so that a long file costs no more than a short one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal

from dllint.dataclass import dataclass
from dllint.findings import Fix, Location
from dllint.report.sources import SourceCache, split_lines

_AROUND = 1  # unchanged lines shown before and after a change

_Change = tuple[Location, str]  # what is replaced, and by what


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a diff: kept, taken out or put in, with its number in the text before or (put in) after."""

    sign: Literal[" ", "-", "+"]
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class Hunk:
    """Neighboring changes. ``column`` counts the code points before the first one on its line."""

    lines: tuple[DiffLine, ...]
    column: int
    cell: int | None


def hunks(path: str, fix: Fix, sources: SourceCache) -> list[Hunk]:
    """What ``fix`` changes in the file at ``path``; nothing when the file cannot be read or has changed since."""
    changes: list[_Change] = []
    for edit in sorted(fix.edits, key=lambda edit: (edit.start, edit.end)):
        place = sources.place(path, edit.start, edit.end)
        if place is None:
            return []
        changes.append((place, edit.text))
    found: list[Hunk] = []
    grown: dict[int | None, int] = {}  # lines that the hunks so far have added, by cell
    for group in _neighbours(changes):
        place = group[0][0]
        lines = _diff(sources.lines(place), group, grown.get(place.cell, 0))
        added = sum((line.sign == "+") - (line.sign == "-") for line in lines)
        grown[place.cell] = grown.get(place.cell, 0) + added
        found.append(Hunk(tuple(lines), place.column - 1, place.cell))
    return found


def _neighbours(changes: Sequence[_Change]) -> Iterator[list[_Change]]:
    """Changes in order, those together whose surroundings touch."""
    group: list[_Change] = []
    for change in changes:
        if group:
            before, after = group[-1][0], change[0]
            if before.cell != after.cell or after.line - before.end_line > 2 * _AROUND:
                yield group
                group = []
        group.append(change)
    if group:
        yield group


def _diff(lines: Sequence[str], group: Sequence[_Change], shift: int) -> list[DiffLine]:
    first = max(1, group[0][0].line - _AROUND)
    last = min(len(lines), group[-1][0].end_line + _AROUND)
    old = list(lines[first - 1 : last])
    new = split_lines(_applied(old, first, group))
    rows: list[DiffLine] = []
    for _, old_start, old_end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        same = old[old_start:old_end] == new[new_start:new_end]
        taken = [DiffLine(" " if same else "-", first + at, old[at]) for at in range(old_start, old_end)]
        put = [DiffLine("+", first + at + shift, new[at]) for at in range(new_start, new_end)]
        rows += taken if same else taken + put
    return _trimmed(rows)


def _trimmed(rows: list[DiffLine]) -> list[DiffLine]:
    """The rows without unchanged lines at either end that are blank or too far from a change."""
    changed = [at for at, row in enumerate(rows) if row.sign != " "]
    if not changed:
        return []
    first, last = max(0, changed[0] - _AROUND), min(len(rows), changed[-1] + _AROUND + 1)
    while not rows[first].text.strip() and first < changed[0]:
        first += 1
    while not rows[last - 1].text.strip() and last - 1 > changed[-1]:
        last -= 1
    return rows[first:last]


def _applied(old: Sequence[str], first: int, group: Sequence[_Change]) -> str:
    """The text of ``old``, whose first line has the number ``first``, with the changes made."""
    text = "\n".join(old)
    starts = [0]
    for line in old:
        starts.append(starts[-1] + len(line) + 1)
    for place, replacement in reversed(group):
        start = starts[place.line - first] + place.column - 1
        end = starts[place.end_line - first] + place.end_column - 1
        text = text[:start] + replacement + text[end:]
    return text
