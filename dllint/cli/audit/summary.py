"""The summary of an audit: one page in Markdown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import field

from dllint import __version__
from dllint.cli.audit.one import Result
from dllint.dataclass import dataclass

_SHOWN = 10


@dataclass(slots=True)
class Summary:
    """What is counted while results go by, one repository after the other."""

    repositories: int = 0
    files: int = 0
    lines: int = 0
    seconds: float = 0.0
    memory: int = 0
    findings: Counter[tuple[str, str]] = field(default_factory=Counter)  # by code and name of the rule
    having: Counter[tuple[str, str]] = field(default_factory=Counter)  # repositories, by the same
    confidences: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)  # findings, by repository
    slowest: Counter[str] = field(default_factory=Counter)  # CPU seconds, by repository
    faults: list[tuple[str, str]] = field(default_factory=list)  # repository and message
    problems: Counter[str] = field(default_factory=Counter)  # files that could not be looked at, by repository

    def add(self, result: Result) -> None:
        """Count one repository."""
        name = result["repository"]
        if result["status"] != "done":
            self.faults.append((name, f"{result['status']}: {result['message']}"))
            return
        self.repositories += 1
        self.files += result["files"]
        self.lines += result["lines"]
        self.seconds += result["seconds"]
        self.memory = max(self.memory, result["memory"] or 0)
        self.slowest[name] = result["seconds"]
        if result["problems"]:
            self.problems[name] = len(result["problems"])
        rules = [(finding["code"], finding["name"]) for finding in result["findings"]]
        self.findings.update(rules)
        self.having.update(set(rules))
        self.confidences.update(finding["confidence"] for finding in result["findings"])
        if rules:
            self.most[name] = len(rules)

    @property
    def page(self) -> str:
        """The page."""
        total = sum(self.findings.values())
        sure = ", ".join(f"{count:,} {confidence}" for confidence, count in self.confidences.most_common())
        each = self.seconds / max(self.lines, 1)
        parts = [
            f"# Audit\n\n{self.repositories:,} repositories, {self.files:,} files, {self.lines:,} lines; dllint "
            f"{__version__}.\n\n"
            f"**{total:,} findings** in {len(self.most):,} of them{f': {sure}' if sure else ''}. "
            f"{self.seconds:,.0f} s of CPU time, {each * 1e6:,.0f} µs a line, at most {self.memory / 1e6:,.0f} MB in a "
            "process.",
            _table(
                "By rule",
                ("rule", "findings", "repositories"),
                ((f"{code} {name}", f"{n:,}", f"{self.having[code, name]:,}") for (code, name), n in self._by_rule()),
            ),
            _table("Most findings", ("repository", "findings"), _largest(self.most)),
            _table("Slowest", ("repository", "CPU seconds"), _largest(self.slowest)),
            _table("Not audited", ("repository", "why"), self.faults),
            _table("With files that could not be looked at", ("repository", "problems"), _largest(self.problems)),
        ]
        return "\n\n".join(part for part in parts if part) + "\n"

    def _by_rule(self) -> list[tuple[tuple[str, str], int]]:
        return sorted(self.findings.items(), key=lambda entry: (-entry[1], entry[0]))


def _largest(counts: Counter[str]) -> list[tuple[str, str]]:
    return [(name, f"{count:,.0f}") for name, count in counts.most_common(_SHOWN)]


def _table(title: str, head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table under a heading; nothing if it has no rows."""
    body = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    if not body:
        return ""
    lines = [f"## {title}", "", "| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *body]
    return "\n".join(lines)
