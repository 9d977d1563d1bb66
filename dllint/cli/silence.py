"""``dllint check --why-silent FILE:LINE``: what kept rules from reporting a line."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import click

from dllint.cli import streams
from dllint.cli.options import configuration
from dllint.cli.outcome import tell_problems
from dllint.cli.project import find_project, lint, merged
from dllint.files.source import display_path
from dllint.findings import Finding, Location, Silence


def explain(given: dict[str, Any]) -> int:
    """Lint, and write what rules had in view at a line and did not report, and why; also what they did report.

    Args:
        given: the options by name. Without paths, the file alone is looked at.

    Returns:
        The exit code: 0, or 2 where something could not be read.

    Raises:
        UsageError: the place is not of the form ``FILE:LINE``.
        UserError: the configuration cannot be used.
    """
    file, line = _place(given["why_silent"])
    project = find_project(given["paths"] or (file,), configuration(given), respect_excludes=not given["no_exclude"])
    for part in project.parts:
        part.settings = replace(part.settings, why_silent=True)
    lint(project, jobs=given["jobs"], cache=False)
    report = merged(project)
    tell_problems(report)
    path = display_path(os.path.abspath(file))
    reasons = sorted({_words(each) for each in report.silences if _is_at(each.location, path, line)})
    reported = sorted({_told(each) for each in report.findings if _is_at(each.location, path, line)})
    lines = _lines([*reported, *reasons]) or "  no rule had anything in view here\n"
    streams.write(f"{file}:{line}\n{lines}")
    return 2 if report.problems else 0


def _place(text: str) -> tuple[str, int]:
    file, _, line = text.rpartition(":")
    if not file or not line.isdecimal():
        raise click.UsageError(f"--why-silent: {text!r} is not of the form FILE:LINE")
    return file, int(line)


def _is_at(location: Location, path: str, line: int) -> bool:
    return display_path(location.path) == path and location.line <= line <= location.end_line


def _words(silence: Silence) -> tuple[str, str, str]:
    return silence.code, silence.name, f"not reported: {silence.reason}"


def _told(finding: Finding) -> tuple[str, str, str]:
    return finding.code, finding.name, "reported"


def _lines(told: Iterable[tuple[str, str, str]]) -> str:
    return "".join(f"  {code} {name}: {what}\n" for code, name, what in told)
