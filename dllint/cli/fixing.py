"""``--fix``, ``--diff`` and ``--add-ignore``: changing the files of a project."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from pathlib import Path

import click

from dllint.cli import streams
from dllint.cli.project import Part, Project
from dllint.config.resolve import listed_rules
from dllint.config.selectors import ENGINE_CODES
from dllint.dataclass import dataclass
from dllint.files.source import SourceError, SourceFile, display_path, read_source
from dllint.findings import Finding, Problem
from dllint.fixes import FixOutcome, Lint, apply_fixes, fix_source, write_source
from dllint.report.text import count
from dllint.syntax.comment_edits import with_suppression

_Key = tuple[str, str, str, str]


@dataclass(slots=True)
class Fixing:
    """What fixing has come to: an outcome for each file with something to mend, and what went wrong.

    ``left`` is the number of findings that only unsafe fixes would mend, where these are not asked for.
    """

    outcomes: list[FixOutcome] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    left: int = 0

    @property
    def changed(self) -> bool:
        """Whether any file has changed."""
        return any(outcome.changed for outcome in self.outcomes)

    @property
    def applied(self) -> list[Finding]:
        """The findings that were mended."""
        return [finding for outcome in self.outcomes for finding in outcome.applied]

    def patch(self) -> str:
        """All changes as one patch."""
        return "".join(outcome.patch() for outcome in self.outcomes)

    def note(self, verb: str, *, each: bool) -> None:
        """Write to standard error how much was, or would be, mended and, if wanted, ``each`` fix."""
        mended = self.applied
        for finding in mended if each else ():
            streams.note(f"{verb} {finding.location.path}: {finding.code} {finding.name}")
        if mended:
            files = sum(outcome.changed for outcome in self.outcomes)
            streams.note(f"{verb} {count(len(mended), 'finding')} in {count(files, 'file')}")
        if self.left == 1:
            streams.note("1 finding has a fix that changes the numbers of a run; --diff --unsafe-fixes shows it")
        elif self.left:
            shown = f"{self.left} findings have fixes that change the numbers of a run"
            streams.note(f"{shown}; --diff --unsafe-fixes shows them")


def fix_project(
    project: Project, sources: Mapping[Path, SourceFile], *, unsafe: bool, write: bool, only_reported: bool
) -> Fixing:
    """Mend what is found in the files of a project.

    Args:
        project: linted.
        sources: files that are not to be read.
        unsafe: whether to apply fixes that change the numbers of a run.
        write: whether to write the files; if not, each sees the others as they would be.
        only_reported: whether to leave alone what the reports do not have, which has been held back.
    """
    fixing = Fixing()
    allowed = {"safe", "unsafe"} if unsafe else {"safe"}
    texts = {path: source.file_text for path, source in sources.items()}
    for part in project.parts:
        reported = {_key(finding) for finding in part.report.findings} if only_reported else None
        fixing.left += 0 if unsafe else _with_unsafe_fixes_alone(part)
        fixable = {
            finding.location.path
            for finding in part.report.findings
            if any(fix.safety in allowed for fix in finding.fixes)
        }
        for file in part.files:
            display = display_path(str(file))
            if display not in fixable:
                continue
            try:
                outcome = fix_source(
                    sources.get(file) or read_source(file), _linter(part, texts, reported), unsafe=unsafe
                )
                if write:
                    write_source(outcome)
                else:
                    texts[file] = outcome.source.file_text
            except SourceError as error:
                fixing.problems.append(Problem(error.kind, str(error), display))
                continue
            fixing.outcomes.append(outcome)
            fixing.problems += outcome.problems
    return fixing


def _with_unsafe_fixes_alone(part: Part) -> int:
    """The number of findings in the files of a part that have unsafe fixes and no safe one."""
    own = {display_path(str(file)) for file in part.files}
    offered = ({fix.safety for fix in each.fixes} for each in part.report.findings if each.location.path in own)
    return sum("unsafe" in safeties and "safe" not in safeties for safeties in offered)


def _linter(part: Part, texts: Mapping[Path, str], reported: Collection[_Key] | None) -> Lint:
    """What lints the versions of a file on the way to one with nothing left to mend."""
    from dllint.runner import lint_files

    def lint(source: SourceFile) -> list[Finding]:
        overlay = {**texts, source.path: source.file_text}
        others = [file for file in (*part.files, *part.around) if file != source.path]
        report = lint_files([source.path], part.settings, around=others, jobs=1, cache=False, overlay=overlay)
        return [finding for finding in report.findings if reported is None or _key(finding) in reported]

    return lint


def _key(finding: Finding) -> _Key:
    """What makes a finding the same one after lines have moved."""
    return finding.code, finding.scope, finding.statement, finding.message


def suppress_all(project: Project, reason: str) -> None:
    """Put a suppression comment to each finding, and leave in the reports those that cannot have one.

    So are findings in files that were not named: nobody expects these to be changed.

    Raises:
        UsageError: the configuration requires a reason and there is none.
    """
    numbers: list[int] = []
    for part in project.parts:
        if part.settings.require_reason and not reason:
            raise click.UsageError("the configuration requires a reason: --add-ignore=REASON")
        by_file: dict[str, list[Finding]] = {}
        own = {display_path(str(file)) for file in part.files}
        for finding in part.report.findings:
            if finding.code not in ENGINE_CODES and finding.location.path in own:
                by_file.setdefault(finding.location.path, []).append(finding)
        for path, findings in by_file.items():
            try:
                suppressed = _suppress(part, Path(path), findings, reason)
            except (SourceError, UnicodeEncodeError) as error:
                part.report.problems.append(Problem("unreadable", str(error), path))
                continue
            numbers.append(len(suppressed))
            part.report.suppressed += len(suppressed)
            part.report.findings = [found for found in part.report.findings if found not in suppressed]
    if total := sum(numbers):
        streams.note(f"suppressed {count(total, 'finding')} in {count(len(numbers), 'file')}")


def _suppress(part: Part, file: Path, findings: Sequence[Finding], reason: str) -> set[Finding]:
    """Write suppression comments for findings of a file. Returns those that now have one; raises SourceError."""
    known = {key: rule.code for rule in listed_rules(part.config) for key in (rule.code, rule.name)}
    source = read_source(file)
    offered = with_suppression(source, findings, known, reason)
    step = apply_fixes(source, offered, unsafe=False)
    write_source(FixOutcome(source, step.source))
    applied = set(step.applied)
    return {finding for finding, other in zip(findings, offered, strict=True) if other in applied}
