"""Findings that are held back because they are older than a revision, and about nothing that has changed since.

A change may bring a finding about code beside it: a call is deleted, and what needs it stands lines away or in another
file. What is not about a changed line is therefore looked for in the files as they were at the revision, under the
present settings, and held back where it is found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from dllint.cli.project import Part, Project
from dllint.files.globs import Globs
from dllint.files.source import display_path
from dllint.findings import Finding, Report, fingerprints
from dllint.since import Before, Changes

Mark = tuple[str, str]  # path and fingerprint: which finding it is, wherever its line has moved


def marks_of(project: Project) -> dict[int, Mark]:
    """The mark of each finding in the reports, by its identity. Nothing may have been held back yet."""
    return {id(finding): mark for part in project.parts for finding, mark in _marked(part.report)}


def _marked(report: Report) -> Iterator[tuple[Finding, Mark]]:
    for finding, fingerprint in fingerprints([*report.findings, *report.questions]):
        yield finding, (finding.location.path, fingerprint)


def hold_back_unchanged(
    project: Project, revision: str, marks: Mapping[int, Mark], *, jobs: int | None, cache: bool
) -> None:
    """Take the findings that are older than a revision out of the reports.

    Args:
        project: linted.
        revision: whatever git takes for a commit.
        marks: those of all findings (see :func:`marks_of`).
        jobs: how many processes to use.
        cache: whether to use results that are kept.

    Raises:
        SinceError: the changes since the revision cannot be had.
    """
    here = Path.cwd()
    changes = Changes(revision, here)
    before = changes.before(here)
    for part in project.parts:
        everything = [*part.report.findings, *part.report.questions]
        new = {id(finding) for finding in changes.keep(everything)}
        doubtful = [finding for finding in everything if id(finding) not in new]
        if doubtful and before.texts:
            old = _report_before(part, {finding.location.path for finding in doubtful}, before, jobs, cache)
            new |= {id(finding) for finding in _not_in(old, part.report, before, marks)}
        part.report.findings = [finding for finding in part.report.findings if id(finding) in new]
        part.report.questions = [finding for finding in part.report.questions if id(finding) in new]


def _not_in(old: Report, report: Report, before: Before, marks: Mapping[int, Mark]) -> Iterator[Finding]:
    """The findings of a report that an old one does not have; what was a question and is none any more is new, too."""
    present_names = {display_path(str(former)): display_path(str(file)) for file, former in before.names.items()}
    answers: set[Mark] = set()
    questions: set[Mark] = set()
    for finding, (path, fingerprint) in _marked(old):
        kind = questions if finding.confidence == "possible" else answers
        kind.add((present_names.get(path, path), fingerprint))
    for finding in (*report.findings, *report.questions):
        mark = marks[id(finding)]
        if mark not in answers and not (finding.confidence == "possible" and mark in questions):
            yield finding


def _report_before(part: Part, paths: Collection[str], before: Before, jobs: int | None, cache: bool) -> Report:
    """What was found in some files of a part, and through those that were named, when the files were as before."""
    from dllint.runner import lint_files

    def former(file: Path) -> Path:
        return before.names.get(file, file)

    files = {former(file) for file in part.files if display_path(str(file)) in paths or file in part.named}
    around = {*part.files, *part.around, *_gone(part, before)} - files
    return lint_files(
        sorted(files),
        part.settings,
        around=sorted(around),
        named={former(file) for file in part.named},
        jobs=jobs,
        cache=cache,
        overlay=before.texts,
    )


def _gone(part: Part, before: Before) -> Iterator[Path]:
    """The files of a part's project that have been deleted or renamed since."""
    root = part.config.root
    excluded = Globs(part.settings.exclude)
    for path in before.texts:
        if path.is_relative_to(root) and not path.exists() and not excluded.matches(path.relative_to(root).as_posix()):
            yield path
