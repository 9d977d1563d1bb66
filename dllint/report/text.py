"""Wording that several formats share. It imports nothing heavy: ``concise`` is on the hot path."""

from __future__ import annotations

from dllint.findings import Finding, Location

_PLACES = 5  # of those that are like a finding, so many are named
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


def assumed(finding: Finding) -> list[str]:
    """What a finding takes for granted, each thing once; each completes the sentence "this assumes that …"."""
    return list(dict.fromkeys(one_line(assumption.text) for assumption in finding.assumptions))


def more_like_this(finding: Finding) -> str:
    """``and 7 more like this: a.py:3:1, …``, with the first places; empty for a finding that stands for itself."""
    if not finding.others:
        return ""
    listed = [place(location) for location in finding.others[:_PLACES]]
    rest = len(finding.others) - len(listed)
    return f"and {len(finding.others)} more like this: {', '.join(listed)}{f' and {rest} others' if rest else ''}"


def doubts(finding: Finding, *, brief: bool = False) -> str:
    """How sure a finding is and what it assumes, in a few words: ``likely, assuming …``; empty where it is certain."""
    if finding.confidence == "certain":
        return ""
    texts = assumed(finding)
    if brief and len(texts) > 1:
        texts = [texts[0], f"{len(texts) - 1} more"]
    return f"{finding.confidence}, assuming {' and '.join(texts)}" if texts else finding.confidence


def explanation(finding: Finding) -> list[str]:
    """The sentences of a finding, each with its capital and its full stop.

    What is wrong, what it does to training, what to do, what that assumes, and where else the same thing is.
    """
    said = (one_line(part) for part in (finding.message, finding.effect, finding.help))
    assumes = f"This assumes that {' and that '.join(assumed(finding))}" if finding.assumptions else ""
    parts = (*said, assumes, more_like_this(finding))
    return [sentence(part) for part in parts if part]


def sentence(text: str) -> str:
    """A text with a capital and a full stop; what begins with code stays as it is."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "!", "?")) else ".")
