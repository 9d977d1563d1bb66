"""One root cause is one finding: what was found several times for one reason is shown once, with the other places.

Findings of one rule with the same message (but for names in it), severity and confidence have one cause if

- their traces begin at one place before them (the calls that lead there aside): a softmax in a model that several loops
  use, a loop of which each backward pass is reported;
- they are in one scope, and their traces begin with the same call: a helper that is called several times;
- they are in one scope, and in different arms of one ``if`` or ``match``;
- they have the very same message in one statement without a block: both terms of a loss;
- they, or their traces, begin on lines that follow one another, and that are the same but for what the messages name:
  ``encoder.eval()`` and ``decoder.eval()``;
- they are at the same place of files (in notebooks, of cells) with the same text;
- they have the very same message about the same statement of the same scope in several files, and traces through lines
  with the same text: an option that each of ten scripts has; or, where the trace begins with the place itself, the same
  lines before and after it: a condition that each of ten notebooks begins with;
- they assume a version of a library, or say that a release of it took something, in files of one project, whatever
  their messages: the project does not say which releases it was written for;
- or they are about the same statement of the same scope in files of one name in sibling folders: the paths differ in
  the name of one folder.

Causes are joined: a finding that shares one with two others makes one of all three. The first in the order of
presentation is kept, files before notebooks, and the places of the rest become its ``others``. Its trace tells what
these say besides.

Folding is about what is shown, and comes last: suppression comments, the baseline, fixes and runs are about each place,
fingerprints are those that the findings have among all, and an editor shows each place.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePath

from dllint.files.discovery import is_project
from dllint.findings import Finding, Hop, Location, Report, fingerprints, sort_key
from dllint.report.sources import SourceCache

_NAME = re.compile(r"`[^`]*`")
_GONE = re.compile(r"\bgone since \S+ \d")
_AROUND = "in this "
_CALL = "calls `"  # how a hop begins that is only on the way to the place
_TOLD = 5  # messages of others that a trace tells

Ranges = list[tuple[int, int]]  # the first and the last line of each arm of a branch


def folded(report: Report, sources: SourceCache) -> Report:
    """The report in which the findings, and the notes, of one root cause are one."""
    fold = _Folding(sources, dict(fingerprints([*report.findings, *report.notes])))
    findings, notes = fold.apply(report.findings), fold.apply(report.notes)
    return replace(report, findings=list(findings), notes=list(notes), fingerprints=findings | notes)


class _Folding:
    """Brings findings of one cause together, with the fingerprints they have among all."""

    def __init__(self, sources: SourceCache, marks: dict[Finding, str]) -> None:
        self._sources = sources
        self._marks = marks
        self._trees: dict[tuple[str, int | None], ast.Module] = {}
        self._projects: dict[PurePath, PurePath] = {}

    def apply(self, findings: Sequence[Finding]) -> dict[Finding, str]:
        """One finding for each cause, in the order of presentation, and its fingerprint."""
        alike: dict[Hashable, list[Finding]] = defaultdict(list)
        for finding in findings:
            said = "" if _is_of_release(finding) else _NAME.sub("", finding.message)
            alike[finding.code, said, finding.severity, finding.confidence].append(finding)
        groups = [group for each in alike.values() for group in (self._grouped(each) if len(each) > 1 else [each])]
        return dict(sorted(map(self._joined, groups), key=lambda item: sort_key(item[0])))

    def _joined(self, group: list[Finding]) -> tuple[Finding, str]:
        """The first of some findings with the places of the others, and its fingerprint. Notebooks come after files, as
        they may be trials."""
        first, *rest = sorted(group, key=lambda finding: (finding.location.cell is not None, sort_key(finding)))
        told = {each.message: each for each in reversed(rest) if not _is_said(each, first)}
        hops = [Hop(each.location, each.message) for each in sorted(told.values(), key=sort_key)[:_TOLD]]
        others = tuple(finding.location for finding in rest)
        return replace(first, others=others, trace=(*hops, *first.trace)), self._marks[first]

    def _grouped(self, findings: list[Finding]) -> Iterable[list[Finding]]:
        """Findings that are alike, by cause."""
        group_of = {finding: [finding] for finding in findings}
        first: dict[Hashable, Finding] = {}
        for finding in findings:
            for cause in self._causes(finding):
                _merge(group_of, first.setdefault(cause, finding), finding)
        for together in (*self._in_arms(findings), *self._in_one_statement(findings), *self._in_rows(findings)):
            for finding in together[1:]:
                _merge(group_of, together[0], finding)
        return {id(group): group for group in group_of.values()}.values()

    def _causes(self, finding: Finding) -> Iterator[Hashable]:
        """What identifies the causes of a finding, arms of branches aside."""
        place, trace = finding.location, finding.trace
        before = _beginning(finding)
        if before != place:
            yield "place", before, finding.message if self._is_around(finding) else ""
        if trace and trace[0].location != place:
            yield "call", place.path, finding.scope, trace[0].location, finding.message
        if lines := self._sources.lines(place):
            yield "copy", tuple(lines), replace(place, path="", cell=None)
        if finding.statement:
            told = [self._text(hop.location) for hop in trace] if before != place else self._lines_around(place)
            yield "text", self._marks[finding], finding.message, *told
        if _is_of_release(finding):
            yield "release", self._project(PurePath(place.path).parent)
        if finding.statement:
            *folders, name = PurePath(place.path).parts
            for at in range(len(folders)):
                yield "sibling", at, *folders[:at], *folders[at + 1 :], name, self._marks[finding]

    def _project(self, folder: PurePath) -> PurePath:
        """The folder of the project that a folder belongs to; the topmost one where nothing marks a project."""
        if folder not in self._projects:
            is_its_own = folder == folder.parent or is_project(Path(folder))
            self._projects[folder] = folder if is_its_own else self._project(folder.parent)
        return self._projects[folder]

    def _lines_around(self, location: Location) -> list[str]:
        """The lines before and after a place, blank ones aside; the place itself, like no other, if one is missing."""
        lines = [each.strip() for each in self._sources.lines(location)]
        before = next(filter(None, reversed(lines[: max(location.line - 1, 0)])), "")
        after = next(filter(None, lines[location.line :]), "")
        return [before, after] if before and after else [str(location)]

    def _text(self, location: Location) -> str:
        """The line of a place; the place itself where it cannot be read, so that it is like no other."""
        lines = self._sources.lines(location)
        return lines[location.line - 1].strip() if location.line <= len(lines) else str(location)

    def _is_around(self, finding: Finding) -> bool:
        """Whether a trace begins with what is around the place: in one loop, two objects may be wrong on their own."""
        return finding.trace[0].message.startswith(_AROUND)

    def _in_arms(self, findings: list[Finding]) -> Iterator[list[Finding]]:
        """The findings in each branch that has some in several of its arms, for each scope."""
        for inside in self._by_scope(findings):
            for arms in self._arms(inside[0].location):
                hit = [[each for each in inside if first <= each.location.line <= last] for first, last in arms]
                if sum(map(bool, hit)) > 1:
                    yield [finding for arm in hit for finding in arm]

    def _in_one_statement(self, findings: list[Finding]) -> Iterator[list[Finding]]:
        """The findings in each statement that has several and no block, for each scope."""
        for inside in self._by_scope(findings):
            for first, last in self._simple_statements(inside[0].location):
                hit = [each for each in inside if first <= each.location.line <= last]
                if len(hit) > 1:
                    yield hit

    def _in_rows(self, findings: list[Finding]) -> Iterator[list[Finding]]:
        """The findings that begin on two lines which follow one another, where these differ in what is named alone."""
        begins = [(_beginning(each), each) for each in findings]
        at = {(place.path, place.cell, place.line): each for place, each in begins}
        for (path, cell, line), finding in at.items():
            after = at.get((path, cell, line + 1))
            is_other = after is not None and after.scope == finding.scope and after.message != finding.message
            if after is not None and is_other and self._form(after) == self._form(finding):
                yield [finding, after]

    def _form(self, finding: Finding) -> str:
        """The line that a finding begins on, without what its message names."""
        text = self._text(_beginning(finding))
        for name in _NAME.findall(finding.message):
            text = text.replace(name.strip("`"), "``")
        return text

    def _by_scope(self, findings: list[Finding]) -> Iterator[list[Finding]]:
        """Several findings with one message in one scope."""
        scopes: dict[Hashable, list[Finding]] = defaultdict(list)
        for finding in findings:
            scopes[finding.location.path, finding.location.cell, finding.scope, finding.message].append(finding)
        return (inside for inside in scopes.values() if len(inside) > 1)

    def _arms(self, location: Location) -> list[Ranges]:
        """The branches of the file, or of the cell, that a place is in."""
        return [arms for node in _statements(self._tree(location)) if (arms := _lines_of_arms(node))]

    def _simple_statements(self, location: Location) -> Ranges:
        """Where the statements without blocks are in the file, or in the cell, that a place is in."""
        tree = self._tree(location)
        simple = (node for node in (*tree.body, *_statements(tree)) if next(_statements(node), None) is None)
        return [(node.lineno, node.end_lineno or node.lineno) for node in simple if isinstance(node, ast.stmt)]

    def _tree(self, location: Location) -> ast.Module:
        """The file, or the cell, that a place is in; nothing if Python cannot parse it."""
        key = (location.path, location.cell)
        if key not in self._trees:
            try:
                self._trees[key] = ast.parse("\n".join(self._sources.lines(location)))
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                self._trees[key] = ast.Module([], [])
        return self._trees[key]


def _beginning(finding: Finding) -> Location:
    """Where the trace of a finding begins, the calls that lead there aside; else the place itself."""
    begun = (hop.location for hop in finding.trace if not hop.message.startswith(_CALL))
    return next(begun, finding.location)


def _is_of_release(finding: Finding) -> bool:
    """Whether a finding is about what a release of a library has changed."""
    return any(each.kind == "version" for each in finding.assumptions) or bool(_GONE.search(finding.message))


def _is_said(one: Finding, other: Finding) -> bool:
    """Whether a finding says the same as another, but for names, or is not about a release."""
    return not _is_of_release(one) or _NAME.sub("", one.message) == _NAME.sub("", other.message)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """What is in the blocks of a node, at any depth."""
    for name in ("body", "orelse", "handlers", "cases", "finalbody"):
        for inner in getattr(node, name, ()):
            yield inner
            yield from _statements(inner)


def _lines_of_arms(node: ast.AST) -> Ranges:
    """Where the arms of a branch are; empty for anything else."""
    arms: list[list[ast.stmt]] = []
    if isinstance(node, ast.If):
        arms = [node.body, node.orelse]
    elif isinstance(node, ast.Match):
        arms = [case.body for case in node.cases]
    return [(arm[0].lineno, arm[-1].end_lineno or arm[-1].lineno) for arm in arms if arm]


def _merge(group_of: dict[Finding, list[Finding]], one: Finding, other: Finding) -> None:
    """Make the groups of two findings one."""
    target, source = group_of[one], group_of[other]
    if target is not source:
        target += source
        group_of.update(dict.fromkeys(source, target))
