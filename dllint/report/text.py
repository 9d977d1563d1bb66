"""Wording that several formats share. It imports nothing heavy: ``concise`` is on the hot path."""

from __future__ import annotations

from dllint.findings import Finding, Location

_UNSAFE_TO_PRINT: dict[int, int] = {
    **{code: 0x2400 + code for code in range(0x20)},  # the pictures of the control characters
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
    **dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD),  # bidirectional overrides
}


def visible(text: str) -> str:
    """``text`` with its control characters made visible.

    Source code, file names and messages come from the code that is linted; none of them may drive the terminal or
    reorder what is read on it. Characters that UTF-8 cannot encode become question marks.
    """
    if text.isprintable():
        return text
    return text.translate(_UNSAFE_TO_PRINT).encode("utf-8", "replace").decode("utf-8")


def one_line(text: str) -> str:
    """``text`` on one line, safe to print."""
    return visible(" ".join(text.split()))


def count(number: int, noun: str) -> str:
    """``1 error``, ``2 errors``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def place(location: Location) -> str:
    """``path:line:column``; in a notebook ``path:cell 3:line:column``."""
    cell = "" if location.cell is None else f"cell {location.cell}:"
    return f"{visible(location.path)}:{cell}{location.line}:{location.column}"


def explanation(finding: Finding) -> list[str]:
    """The sentences of a finding: what is wrong, what it does to training, what to do; each with its full stop."""
    parts = (one_line(part) for part in (finding.message, finding.effect, finding.help))
    return [part if part.endswith((".", "!", "?")) else f"{part}." for part in parts if part]
