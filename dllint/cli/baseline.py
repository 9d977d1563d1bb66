"""``dllint baseline``: make, renew, check and prune the file of known findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dllint.cli import CommandGroup, streams
from dllint.cli.options import configuration, project_options, selection_options
from dllint.files.source import display_path

if TYPE_CHECKING:
    from dllint.baseline import Baseline
    from dllint.cli.project import Part

command = CommandGroup(
    {"update": "dllint.cli.baseline:update", "prune": "dllint.cli.baseline:prune"},
    name="baseline",
    help="Keep known findings in a file, so that only new ones are reported.\n\n"
    "`dllint baseline PATH...` is `dllint baseline update PATH...`.",
    short_help="Make or renew the file of known findings.",
)


@click.command("update", short_help="Take all present findings into the baseline.")
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 if the baseline would change.")
@selection_options
@project_options
def update(**given: Any) -> int:
    """Take the findings in PATHS into the baseline, and let those go that are no more.

    Entries of other files and of rules that do not run stay as they are.
    """
    return _renew(given, prune_only=False)


@click.command("prune", short_help="Drop the entries of findings that are gone.")
@click.option("--check", is_flag=True, help="Change nothing; exit with 1 if the baseline would change.")
@selection_options
@project_options
def prune(**given: Any) -> int:
    """Take the entries out of the baseline whose finding in PATHS, or whose file, is gone."""
    return _renew(given, prune_only=True)


def _renew(given: dict[str, Any], *, prune_only: bool) -> int:
    """Lint, and write the baselines that change. Returns the exit code."""
    from dllint.cli.outcome import tell_problems
    from dllint.cli.project import find_project, lint, merged

    project = find_project(given["paths"] or (".",), configuration(given), respect_excludes=not given["no_exclude"])
    lint(project, jobs=given["jobs"], cache=not given["no_cache"])
    report = merged(project)
    tell_problems(report)
    has_changed = False
    for part in project.parts:
        old = _present(part, must_exist=prune_only)
        new = _next(old, part, prune_only)
        added, removed = len(new.entries - old.entries), len(old.entries - new.entries)
        has_changed |= bool(added or removed)
        if not given["check"] and (added or removed or not (prune_only or old.path.exists())):
            new.write()
        would = "would be " if given["check"] else ""
        name = display_path(str(old.path))
        streams.note(f"{name}: {added} {would}added, {removed} {would}removed, {len(new.entries)} in all")
    return 2 if report.problems else int(given["check"] and has_changed)


def _present(part: Part, *, must_exist: bool) -> Baseline:
    """The baseline of a project as it is. Raises BaselineError, or UsageError if the configuration wants none."""
    from dllint.baseline import Baseline

    path = part.settings.baseline
    if path is None:
        raise click.UsageError(f"no baseline is configured for {part.config.root}")
    return Baseline.read(path) if must_exist or path.exists() else Baseline(path)


def _next(old: Baseline, part: Part, prune_only: bool) -> Baseline:
    """The baseline of a project as it should be after a run."""
    from dllint.cli.known import judged

    looked_for = judged(part, old)
    if not prune_only:
        return old.updated(part.report.findings, looked_for)
    _, matched = old.split([*part.report.findings, *part.report.questions])
    return old.without(old.stale(matched, looked_for))
