"""One run of ``dllint check``, step by step."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dllint.cli import streams
from dllint.cli.known import hold_back_known, tell_unneeded
from dllint.cli.options import configuration
from dllint.cli.outcome import (
    Reports,
    exit_code,
    note_timing,
    parse_files,
    parse_format,
    tell_newcomer,
    tell_problems,
    write_statistics,
)
from dllint.cli.project import Project, find_project, lint, presented, stdin_project, warn_of_idle_globs
from dllint.files.source import SourceError, SourceFile, source_from_bytes
from dllint.findings import Problem

if TYPE_CHECKING:
    from dllint.cli.fixing import Fixing

STDIN = "-"


class Run:
    """A run of ``dllint check``.

    Args:
        given: the options by name.

    Raises:
        ClickException: options have wrong values, or cannot be combined.
    """

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given
        self._from_stdin = STDIN in given["paths"]
        self._check_combinations()
        self._format = parse_format(given["output_format"])
        self._files = parse_files(given["outputs"])
        self._stdin = b""
        self._sources: dict[Path, SourceFile] = {}  # what is not to be read from its file

    def _check_combinations(self) -> None:
        given = self._given
        if self._from_stdin and len(given["paths"]) > 1:
            raise click.UsageError("`-` cannot be combined with other paths")
        if self._from_stdin and (given["since"] or given["add_ignore"] is not None):
            raise click.UsageError("`-` cannot be combined with --since or --add-ignore")
        if given["stdin_filename"] and not self._from_stdin:
            raise click.UsageError("--stdin-filename is the name of `-`")
        if given["confirm"] and (self._from_stdin or given["fix"] or given["add_ignore"] is not None):
            raise click.UsageError("--confirm cannot be combined with `-`, --fix or --add-ignore")
        if given["add_ignore"] is not None and (given["fix"] or given["diff"]):
            raise click.UsageError("--add-ignore cannot be combined with --fix or --diff")

    def execute(self) -> int:
        """Lint, and do what the options ask for.

        Returns:
            The exit code.

        Raises:
            UserError: the configuration, the baseline, the revision or an output file cannot be used.
        """
        project = self._from_standard_input() if self._from_stdin else self._from_paths()
        unneeded = self._lint(project)
        patch = ""
        if self._given["diff"]:
            patch = self._show_patch(project)
        elif self._given["fix"]:
            unneeded = self._fix(project, unneeded)
        elif self._given["add_ignore"] is not None:
            from dllint.cli.fixing import suppress_all  # changing files needs modules that linting does not

            suppress_all(project, self._given["add_ignore"].strip())
        if self._given["verbose"]:
            from dllint.cli.verbose import tell  # reads the imports of all files

            tell(project)
        self._report(project)
        tell_unneeded(unneeded)
        code = exit_code(project, exit_zero=self._given["exit_zero"])
        fails_anyway = patch or (unneeded and self._given["strict_baseline"])
        return 1 if fails_anyway and not code and not self._given["exit_zero"] else code

    def _from_paths(self) -> Project:
        paths = self._given["paths"] or (".",)
        project = find_project(paths, configuration(self._given), respect_excludes=not self._given["no_exclude"])
        if not project.files and not project.problems:
            streams.note("no files to check")
        warn_of_idle_globs(project)
        return project

    def _from_standard_input(self) -> Project:
        if sys.stdin is None:
            raise click.UsageError("standard input is closed")
        path = Path(os.path.abspath(self._given["stdin_filename"] or "<stdin>"))
        self._stdin = sys.stdin.buffer.read()
        project = stdin_project(path, configuration(self._given), respect_excludes=not self._given["no_exclude"])
        try:
            self._sources[path] = source_from_bytes(self._stdin, path)
        except SourceError as error:
            return Project([], [Problem(error.kind, str(error), path.name)])
        return project

    @property
    def _overlay(self) -> dict[Path, str]:
        return {path: source.file_text for path, source in self._sources.items()}

    def _lint(self, project: Project) -> int:
        """Fill in the reports, less what is known or unchanged. Returns the number of baseline entries not needed."""
        lint(
            project,
            jobs=self._given["jobs"],
            cache=not self._given["no_cache"],
            overlay=self._overlay,
            executor=self._given["executor"],
        )
        unneeded = self._hold_back_unchanged(project) if self._given["since"] else hold_back_known(project)
        if self._given["confirm"]:
            from dllint.cli.confirm import settle_project  # running scripts needs modules that linting does not

            settle_project(project, self._given["confirm"])
        return unneeded

    def _hold_back_unchanged(self, project: Project) -> int:
        """Take what is known, or older than a revision, out of the reports. Returns as :meth:`_lint`."""
        from dllint.cli.unchanged import hold_back_unchanged, marks_of

        marks = marks_of(project)  # findings are told apart by their number, so all have to be there
        unneeded = hold_back_known(project)
        options = self._given
        hold_back_unchanged(project, options["since"], marks, jobs=options["jobs"], cache=not options["no_cache"])
        return unneeded

    def _mend(self, project: Project, *, write: bool) -> Fixing:
        from dllint.cli.fixing import fix_project

        return fix_project(
            project,
            self._sources,
            unsafe=self._given["unsafe_fixes"],
            write=write,
            only_reported=bool(self._given["since"]) or any(part.report.baselined for part in project.parts),
        )

    def _show_patch(self, project: Project) -> str:
        """Write what fixing would change. Returns it."""
        fixing = self._mend(project, write=False)
        project.problems += fixing.problems
        patch = fixing.patch()
        streams.write_bytes(patch.encode("utf-8", "surrogateescape"))
        fixing.note("would fix", each=self._given["show_fixes"])
        return patch

    def _fix(self, project: Project, unneeded: int) -> int:
        """Fix the files, or what came by standard input, and lint again what has changed."""
        fixing = self._mend(project, write=not self._from_stdin)
        if self._from_stdin:
            self._sources |= {outcome.source.path: outcome.source for outcome in fixing.outcomes}
            fixed = [source.to_bytes() for source in self._sources.values()]
            streams.write_bytes(fixed[0] if fixing.changed else self._stdin)
        fixing.note("fixed", each=self._given["show_fixes"])
        if fixing.changed:
            unneeded = self._lint(project)
        project.problems += fixing.problems
        return unneeded

    def _report(self, project: Project) -> None:
        """Write the reports and what else is asked for."""
        report = presented(project, self._overlay)
        if self._given["notes"] is False:
            report.notes = []
        if not self._given["show_suppressed"]:  # who shows SARIF may not know of suppressions, as GitHub does not
            report.held = []
        tell_problems(report)
        reports = Reports(report, project.rules, self._overlay)
        for fmt, file in self._files:
            reports.write_file(fmt, file)
        to_stderr = self._from_stdin and self._given["fix"]  # standard output has the code
        if self._given["statistics"]:
            write_statistics(
                [*report.findings, *report.notes], as_json=self._format in ("json", "jsonl"), to_stderr=to_stderr
            )
        elif not self._given["diff"]:  # nor is a patch to be mixed with anything
            reports.write(self._format, to_stderr=to_stderr)
        if self._given["timing"]:
            note_timing(report)
        if self._is_a_first_look(project):
            tell_newcomer(report)

    def _is_a_first_look(self, project: Project) -> bool:
        """Whether folders are linted, with nothing configured, asked for or accepted yet."""
        given = self._given
        is_asked = given["output_format"] or given["fix"] or given["diff"] or given["since"] or given["statistics"]
        is_used = any(part.config.is_configured or part.report.baselined for part in project.parts)
        return not (is_asked or is_used) and all(map(os.path.isdir, given["paths"]))
