"""What dllint reports: findings, the places they are about, and the edits that would mend them.

Everything here is plain immutable data. Rules make it, and the reports, the fixer, the baseline and the
language server read it, so this module imports nothing of dllint but what a claim may assume.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Literal

from dllint.assumptions import Assumptions
from dllint.dataclass import dataclass

Severity = Literal["error", "warning", "info"]
Confidence = Literal["certain", "likely", "possible"]
Category = Literal["correctness", "suspicious", "performance", "reproducibility", "pedantic"]
Safety = Literal["safe", "unsafe", "suggestion"]

SEVERITY_RANK: dict[str, int] = {"info": 0, "warning": 1, "error": 2}
CONFIDENCE_RANK: dict[Confidence, int] = {"possible": 0, "likely": 1, "certain": 2}


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A range of source text, in the form users see it.

    Lines and columns count from 1, columns in code points. In a notebook, ``cell`` is the number of the code
    cell among all cells (from 1), and lines count from the first line of that cell.
    """

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    cell: int | None = None


@dataclass(frozen=True, slots=True)
class Hop:
    """One step on the way from cause to effect: a place and what happens there."""

    location: Location
    message: str


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace ``text[start:end]`` of a file's decoded text (code points, line ends as in the file)."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A way to mend a finding in the finding's own file.

    ``safe`` keeps the numbers a run produces, ``unsafe`` changes them (as most true fixes of training bugs do),
    ``suggestion`` is shown and offered in editors and never applied in bulk.
    """

    message: str
    edits: tuple[Edit, ...]
    safety: Safety


@dataclass(frozen=True, slots=True)
class Finding:
    """One report of one rule.

    ``message`` says what is wrong, ``effect`` what it does to training, ``help`` what to do about it.
    ``trace`` leads from the cause to the place reported. ``scope`` (``Class.method``) and ``statement`` (the
    flagged statement with its white space collapsed) identify the finding when lines move.
    ``pedantic`` marks a variant of the rule that is off unless the rule is named in ``--select`` (or ``ALL`` is).
    ``confirmable`` says that a run can settle it. ``assumptions`` are what the claim takes for granted; how sure it is
    (``confidence``) follows from them. ``others`` are further places of the same root cause, which are not reported on
    their own. ``alone`` is the definition (file and line) that was interpreted by itself to find it, or ``None``.
    ``beside_probe`` says that it makes another claim than the one that the probe of its rule judges.
    ``number`` tells which one it is of those in its file that are the same but for their place, where these are not all
    reported; else it is 0.
    """

    code: str
    name: str
    message: str
    location: Location
    severity: Severity
    category: Category
    confidence: Confidence = "certain"
    assumptions: Assumptions = ()
    effect: str = ""
    help: str = ""
    scope: str = ""
    statement: str = ""
    trace: tuple[Hop, ...] = ()
    fixes: tuple[Fix, ...] = ()
    pedantic: bool = False
    confirmable: bool = False
    url: str = ""
    others: tuple[Location, ...] = ()
    alone: tuple[str, int] | None = None
    number: int = 0
    beside_probe: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """A finding that is held back: by a ``comment`` in the code, which may give a ``reason``, or by the baseline."""

    finding: Finding
    by: Literal["comment", "baseline"]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Silence:
    """That a rule had something in view and did not report it. ``reason`` says why, in words."""

    code: str
    name: str
    location: Location
    reason: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that kept dllint from doing its work, as opposed to a finding about the user's code.

    ``kind`` is ``unreadable`` (no such file, no permission, not text), ``config``, ``crash`` (a rule or the
    interpreter failed; also reported as DL002) or ``limit``. Any problem makes the exit code 2.
    """

    kind: Literal["unreadable", "config", "crash", "limit"]
    message: str
    path: str = ""


@dataclass(slots=True)
class Report:
    """The outcome of one run: findings in the order they are shown, and everything a summary needs.

    ``notes`` are findings of severity ``info`` that are counted, and listed only by formats for other programs.
    ``questions`` are the possible findings that nobody has asked for: no format shows them, and a run may answer them.
    ``fingerprints`` are those of findings and notes where others were folded into them, and so do not count any more.
    """

    findings: list[Finding] = field(default_factory=list)
    notes: list[Finding] = field(default_factory=list)
    questions: list[Finding] = field(default_factory=list)
    fingerprints: dict[Finding, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    files: int = 0
    cached: int = 0  # of these files, and of those that import them, those whose results an earlier run has kept
    suppressed: int = 0
    baselined: int = 0
    held: list[Held] = field(default_factory=list)  # what is suppressed or in the baseline
    seconds: float = 0.0
    timing: dict[str, float] = field(default_factory=dict)  # rule code or phase -> CPU seconds
    silences: list[Silence] = field(default_factory=list)  # only where somebody asks for them


def sort_key(finding: Finding) -> tuple[str, int, int, int, str]:
    """Order of presentation: by file, then by place (cells of a notebook in order), then by code."""
    place = finding.location
    return (place.path, place.cell or 0, place.line, place.column, finding.code)


def fingerprints(findings: Iterable[Finding]) -> Iterator[tuple[Finding, str]]:
    """Pair each finding with a fingerprint that survives moved lines and reformatting.

    The fingerprint hashes the code, the enclosing scope, the text of the flagged statement and, among equal ones
    in a file, which one it is. It has no line number in it, and no path, so that a renamed file keeps it. Possible
    findings are counted last: whether they are asked for changes nothing for the others.
    """
    for finding, number in numbered(findings):
        text = "\0".join((finding.code, finding.scope, finding.statement, str(number)))
        yield finding, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def numbered(findings: Iterable[Finding]) -> Iterator[tuple[Finding, int]]:
    """Pair each finding with its number among those in its file that are the same but for their place."""
    seen: dict[tuple[str, str, str, str], int] = {}
    for finding in sorted(findings, key=lambda finding: (finding.confidence == "possible", sort_key(finding))):
        key = (finding.location.path, finding.code, finding.scope, finding.statement)
        seen[key] = finding.number or seen.get(key, 0) + 1
        yield finding, seen[key]
