"""Marks: the comments that say what a rule must report.

``# DL101`` at the end of a line: one finding of DL101 starts on it. ``# DL101, DL202`` or ``# DL101 # DL202``: one of
each. ``# todo: DL101``: a bug that the rule is known to miss. ``# todo: no DL101``: a known false alarm. A reason may
follow, ``# todo: DL101 -- needs types``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from dllint.dataclass import dataclass

_CODE = r"(?:(?:DL|AXC)\d{2,3}|[A-Z]{2,8}\d{3})"
_LINE_END = re.compile(r"\r\n?|\n")
_TODO = r"(?P<todo>(?i:todo):\s*(?P<no>no\s+)?)"
_BEGINS = re.compile(rf"#\s*{_TODO}?{_CODE}\b.*$")
_PART = re.compile(rf"{_TODO}?(?P<codes>{_CODE}(?:\s*,\s*{_CODE})*)\s*(?:--\s*\S.*)?")

Kind = Literal["bug", "known miss", "known false alarm"]


class FixtureError(ValueError):
    """A fixture, or a source given to :func:`dllint.testing.check`, that is not of the right form."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What is to be said of ``code`` on ``line``: that a finding starts there, or that dllint is known to be wrong."""

    line: int
    code: str
    kind: Kind = "bug"


def read_marks(text: str) -> list[Mark]:
    """The marks of a source, in order.

    Raises:
        FixtureError: a comment begins as a mark does and goes on otherwise, so that it would be overlooked.
    """
    lines = enumerate(_LINE_END.split(text), 1)
    return [mark for number, line in lines if "#" in line for mark in _of_line(number, line)]


def numbered(text: str, first: int) -> tuple[str, list[list[Mark]]]:
    """The source with ``# mark N`` in the place of the marks of each line, so that a line is found wherever it goes.

    Args:
        first: the number of the first marked line.

    Returns:
        the text, and the marks of its marked lines.
    """
    by_line: dict[int, list[Mark]] = {}
    for mark in read_marks(text):
        by_line.setdefault(mark.line, []).append(mark)
    lines = text.split("\n")
    for number, line in enumerate(by_line, first):
        lines[line - 1] = _BEGINS.sub(f"# mark {number}", lines[line - 1])
    return "\n".join(lines), list(by_line.values())


def _of_line(number: int, line: str) -> Iterator[Mark]:
    begun = _BEGINS.search(line)
    if begun is None:
        return
    for part in begun.group().split("#")[1:]:
        match = _PART.fullmatch(part.strip())
        if match is None:
            raise FixtureError(f"line {number}: `#{part}` is not a mark (write `# DL101`, `# DL101 -- reason`)")
        kind: Kind = "known false alarm" if match["no"] else "known miss" if match["todo"] else "bug"
        for code in match["codes"].split(","):
            yield Mark(number, code.strip(), kind)
