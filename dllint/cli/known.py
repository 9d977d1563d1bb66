"""Findings that are held back because the baseline knows them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dllint.cli import streams
from dllint.cli.project import Part, Project
from dllint.findings import Held

if TYPE_CHECKING:
    from dllint.baseline import Baseline


def hold_back_known(project: Project) -> int:
    """Take the findings that the baselines know out of the reports.

    Returns:
        The number of entries that are not needed, as what they stand for is found no more.

    Raises:
        BaselineError: a baseline cannot be read, or one that is named does not exist.
    """
    unneeded = 0
    for part in project.parts:
        if (baseline := read_baseline(part)) is None:
            continue
        found, questions = part.report.findings, part.report.questions
        new, matched = baseline.split([*found, *questions])  # what a question stands for is not gone
        unknown = {id(finding) for finding in new}
        part.report.findings = [finding for finding in found if id(finding) in unknown]
        part.report.questions = [finding for finding in questions if id(finding) in unknown]
        known = [finding for finding in found if id(finding) not in unknown]
        part.report.baselined = len(known)
        part.report.held += [Held(finding, "baseline") for finding in known]
        unneeded += len(baseline.stale(matched, judged(part, baseline)))
    return unneeded


def tell_unneeded(number: int) -> None:
    """Warn of entries of the baseline that are not needed."""
    if number:
        entries = "1 entry is" if number == 1 else f"{number} entries are"
        streams.warn(f"{entries} no longer needed in the baseline; `dllint baseline prune` drops them")


def read_baseline(part: Part) -> Baseline | None:
    """The baseline of a project, if it has one. One of the default name need not exist. Raises BaselineError."""
    path = part.settings.baseline
    is_named = part.config.value("baseline")[0] is not None
    if path is None or not (is_named or path.is_file()):
        return None
    from dllint.baseline import Baseline

    return Baseline.read(path)


def judged(part: Part, baseline: Baseline) -> Mapping[str, frozenset[str]]:
    """The codes that were looked for to the end, by file as the baseline calls it."""
    from dllint.baseline import NEVER

    broken = {finding.location.path for finding in part.report.findings if finding.code in NEVER}
    broken |= {problem.path for problem in part.report.problems}
    given_up = {baseline.key(Path(path)) for path in broken}
    codes = {baseline.key(file): part.settings.enabled - part.settings.ignored_in(file) for file in part.files}
    return {file: ran for file, ran in codes.items() if file not in given_up}
