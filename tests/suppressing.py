"""What tests of suppression comments share: findings, and what comments leave of them and say of themselves."""

from __future__ import annotations

from pathlib import Path

from dllint.files.source import SourceFile
from dllint.findings import Edit, Finding
from dllint.syntax.suppressions import Suppressions

RULES = {
    "DL101": "softmax-before-cross-entropy",
    "DL202": "missing-zero-grad",
    "DL004": "unused-suppression",
    "DL005": "invalid-suppression",
}
KNOWN = {**{code: code for code in RULES}, **{name: code for code, name in RULES.items()}}


def source_of(text: str) -> SourceFile:
    """A file with a text."""
    return SourceFile(Path("/p/train.py"), "train.py", text)


def finding(source: SourceFile, line: int, code: str = "DL101", column: int = 0) -> Finding:
    """A finding in a line."""
    place = source.location(line, column, line, column + 1)
    return Finding(code, RULES[code], "wrong", place, "error", "correctness")


def left(text: str, *places: tuple[int, str] | int, require_reason: bool = False) -> list[tuple[int, str]]:
    """The findings, as (line, code), that the comments of ``text`` leave; a bare line stands for a DL101 on it."""
    source = source_of(text)
    found = [finding(source, *((place, "DL101") if isinstance(place, int) else place)) for place in places]
    kept, count = Suppressions.parse(source, KNOWN, require_reason=require_reason).apply(found)
    assert len(kept) + count == len(found)
    return [(item.location.line, item.code) for item in kept]


def judged(
    text: str, *lines: int, ran: tuple[str, ...] = tuple(RULES), blanket: bool = False, require_reason: bool = False
) -> list[Finding]:
    """What is said about the comments of ``text`` when DL101 was found on ``lines``."""
    source = source_of(text)
    suppressions = Suppressions.parse(source, KNOWN, require_reason=require_reason)
    suppressions.apply([finding(source, line) for line in lines])
    return [*suppressions.invalid(), *suppressions.unused(ran, blanket=blanket)]


def edited(text: str, edits: list[Edit]) -> str:
    """``text`` after edits."""
    for edit in sorted(edits, key=lambda edit: edit.start, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def cleaned(text: str, *lines: int) -> str:
    """``text`` after the fixes of what is unused in it."""
    return edited(text, [fix.edits[0] for item in judged(text, *lines) for fix in item.fixes])
