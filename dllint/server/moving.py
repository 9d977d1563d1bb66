"""Findings of one version of a file at the places where their code stands in another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import takewhile

from dllint.files.source import SourceFile
from dllint.findings import Finding


def moved(findings: Iterable[Finding], before: SourceFile, after: SourceFile) -> list[Finding]:
    """The findings whose lines are the same in both versions, placed in the second. Their fixes are left out."""
    old, new = before.text.splitlines(keepends=True), after.text.splitlines(keepends=True)
    head = _common(old, new)
    shortest = min(len(old), len(new)) - head
    tail = min(_common(old[::-1], new[::-1]), shortest)
    end_of_head = sum(map(len, old[:head]))
    start_of_tail = len(before.text) - sum(map(len, old[len(old) - tail :]))
    shift = len(after.text) - len(before.text)
    found: list[Finding] = []
    for finding in findings:
        start, end = before.span(finding.location)
        if end <= end_of_head:
            by = 0
        elif start >= start_of_tail:
            by = shift
        else:
            continue
        found.append(replace(finding, location=after.location_of(start + by, end + by), fixes=()))
    return found


def _common(one: list[str], other: list[str]) -> int:
    """How many lines two texts begin with in common."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
