"""What doubts are cast on: a case with the claims that are made about it, and twins of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from dllint.assumptions import Assumption
from dllint.dataclass import dataclass
from dllint.findings import CONFIDENCE_RANK, Finding, Location
from dllint.testing.linting import Linted, Setup, lint
from dllint.testing.marks import numbered
from dllint.testing.variations.source import Code, code_of
from dllint.tiers import confidence_of

if TYPE_CHECKING:
    from dllint.testing.cases import Case
    from dllint.testing.doubts.decisive import Value

_MARK = re.compile(r"# mark (\d+)$")

ELSEWHERE = 0
"""The number that stands for all lines without a mark."""


@dataclass(frozen=True, slots=True)
class Place:
    """A range of a file, in offsets."""

    file: str
    start: int
    end: int

    def lies_in(self, file: str, span: tuple[int, int]) -> bool:
        """Whether it is within a range of a file."""
        return self.file == file and span[0] <= self.start and self.end <= span[1]


@dataclass(frozen=True, slots=True)
class Claim:
    """A finding on a line that is marked: ``mark`` is the number of the line, ``hops`` are the places of its trace."""

    mark: int
    finding: Finding
    place: Place
    hops: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Twin:
    """A case rewritten so that some of its claims, those of ``marks``, are in doubt.

    They must assume more than they did or be gone; if the doubt is ``total``, what is left of them is ``possible``.
    """

    files: Mapping[str, str]
    marks: frozenset[int]
    total: bool = False
    versions: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Strength:
    """How sure a finding is, and what it assumes."""

    rank: int
    assumptions: frozenset[Assumption]

    @staticmethod
    def of(finding: Finding) -> Strength:
        """The strength of a finding; the record of its rule does not count."""
        return Strength(CONFIDENCE_RANK[confidence_of(finding.assumptions)], frozenset(finding.assumptions))

    @property
    def is_reported(self) -> bool:
        """Whether users see the finding without asking for questions."""
        return self.rank > CONFIDENCE_RANK["possible"]

    @property
    def order(self) -> tuple[int, int]:
        """The surer, the greater."""
        return self.rank, -len(self.assumptions)

    def exceeds(self, other: Strength) -> bool:
        """Whether it is surer than another, or assumes nothing that the other does not: not in more doubt."""
        return self.rank > other.rank or (self.rank == other.rank and self.assumptions <= other.assumptions)


Strengths = Mapping[int, Strength]
"""The surest finding on each marked line, by the number of the mark."""


class Subject:
    """A case as written, with numbers in the place of its marks."""

    def __init__(self, case: Case, setup: Setup) -> None:
        self.case = case
        self._setup = setup
        self._known: dict[tuple[object, ...], Strengths] = {}
        self.decisive: dict[int, list[Value]] = {}
        self.files: dict[str, str] = {}
        count = 0
        self._bugs: set[int] = set()
        for name, text in case.files.items():
            self.files[name], marks = numbered(text, count + 1)
            self._bugs |= {count + n for n, line in enumerate(marks, 1) if any(mark.kind == "bug" for mark in line)}
            count += len(marks)

    def code(self, file: str) -> Code:
        """A file with its syntax tree."""
        return code_of(self.files[file])

    @cached_property
    def claims(self) -> list[Claim]:
        """The findings on lines that are marked as bugs, the first of each line."""
        linted = lint(self.files, self._setup)
        found = {mark: claim for file in reversed(linted) for mark, claim in self._claims_in(file, linted)}
        return [found[mark] for mark in sorted(found) if mark in self._bugs]

    def _claims_in(self, file: Linted, linted: list[Linted]) -> Iterator[tuple[int, Claim]]:
        marks = _marked_lines(file.source.text)
        for finding in reversed(file.findings):
            mark = marks.get(file.line_of(finding), ELSEWHERE)
            hops = (_place(hop.location, linted) for hop in finding.trace)
            place = Place(file.name, *file.source.span(finding.location))
            yield mark, Claim(mark, finding, place, tuple(hop for hop in hops if hop is not None))

    @property
    def reported(self) -> list[Claim]:
        """The claims that users see without asking for questions."""
        return [claim for claim in self.claims if claim.finding.confidence != "possible"]

    @property
    def marks(self) -> frozenset[int]:
        """The numbers of all lines with a claim."""
        return frozenset(claim.mark for claim in self.claims)

    def marks_in(self, file: str, node: ast.stmt) -> frozenset[int]:
        """The numbers of the lines with a claim that a statement reaches over."""
        span = self.code(file).span(node)
        return frozenset(claim.mark for claim in self.claims if claim.place.lies_in(file, span))

    def strengths(self, files: Mapping[str, str], versions: Mapping[str, str] | None = None) -> Strengths:
        """How sure the surest finding on each marked line is, in some version of the files."""
        key = (tuple(files.items()), tuple(sorted(versions.items())) if versions is not None else None)
        if key not in self._known:
            setup = self._setup if versions is None else replace(self._setup, versions=versions)
            self._known[key] = _strengths(lint(files, setup))
        return self._known[key]

    def is_in_doubt(self, mark: int, files: Mapping[str, str]) -> bool:
        """Whether a claim is gone in some version of the files, less sure, or assumes more."""
        before, after = self.strengths(self.files)[mark], self.strengths(files).get(mark)
        return after is None or not after.exceeds(before)

    def faults(self, twin: Twin) -> Iterator[int]:
        """The numbers of the lines on which a twin is reported with more certainty than it may be."""
        before, after = self.strengths(self.files), self.strengths(twin.files, twin.versions)
        for mark in sorted(twin.marks & set(after)):
            if before[mark].is_reported and (
                after[mark].is_reported if twin.total else after[mark].exceeds(before[mark])
            ):
                yield mark
        if ELSEWHERE in after and ELSEWHERE not in before and _is_sure(after[ELSEWHERE], twin):
            yield ELSEWHERE


def _is_sure(strength: Strength, twin: Twin) -> bool:
    return strength.is_reported if twin.total else strength.rank == CONFIDENCE_RANK["certain"]


def _strengths(linted: list[Linted]) -> Strengths:
    found: dict[int, Strength] = {}
    for file in linted:
        marks = _marked_lines(file.source.text)
        for finding in file.findings:
            mark, strength = marks.get(file.line_of(finding), ELSEWHERE), Strength.of(finding)
            if mark not in found or strength.order > found[mark].order:
                found[mark] = strength
    return found


def _marked_lines(text: str) -> dict[int, int]:
    """The numbers of the marked lines of a text, by line."""
    lines = enumerate(text.split("\n"), 1)
    return {number: int(match[1]) for number, line in lines if (match := _MARK.search(line))}


def _place(location: Location, linted: list[Linted]) -> Place | None:
    for file in linted:
        if file.source.display == location.path:
            return Place(file.name, *file.source.span(location))
    return None
