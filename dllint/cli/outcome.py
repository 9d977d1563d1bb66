"""What a run leaves behind: its reports, the lines for people, and the exit code."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dllint.cli import streams
from dllint.dataclass import dataclass
from dllint.findings import SEVERITY_RANK, Finding, Report
from dllint.report import FORMATS, render
from dllint.report.text import count
from dllint.rule_table import Described, loaded

if TYPE_CHECKING:
    from dllint.cli.project import Part, Project


@dataclass(frozen=True, slots=True)
class Reports:
    """Writes one report in any format. ``overlay`` is text to show instead of that of a file."""

    report: Report
    rules: Sequence[Described]
    overlay: Mapping[Path, str]

    def write_file(self, fmt: str, file: Path) -> None:
        """Write it to a file, whose folder is made if need be. Raises OutputError if that fails."""
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self._text(fmt), encoding="utf-8", errors="backslashreplace", newline="\n")
        except OSError as error:
            raise streams.OutputError(f"{file} cannot be written: {error.strerror}") from error

    def write(self, fmt: str, *, to_stderr: bool = False) -> None:
        """Write it to a standard stream; formats for people only if anything was linted. Raises OutputError."""
        if self.report.files or fmt not in ("concise", "full"):
            stream = sys.stderr if to_stderr else sys.stdout
            text = self._text(fmt, streams.has_color(stream))
            (streams.draw if to_stderr else streams.write)(text)

    def _text(self, fmt: str, color: bool = False) -> str:
        width = shutil.get_terminal_size((100, 24)).columns
        root = repository_root()
        rules = tuple(map(loaded, self.rules)) if fmt == "sarif" else ()  # which has their pages
        return render(self.report, fmt, root=root, color=color, width=width, rules=rules, overlay=self.overlay)


def tell_problems(report: Report) -> None:
    """Write to standard error what kept dllint from doing its work."""
    for problem in report.problems:
        streams.fail(f"{problem.path}: {problem.message}" if problem.path else problem.message)


def repository_root() -> Path:
    """What paths in machine formats are relative to: the repository of the working directory, or that itself."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)


def parse_format(value: str | None) -> str:
    """The format for standard output; by default the full one on a terminal. Raises BadParameter."""
    if value is None:
        return "full" if sys.stdout is not None and sys.stdout.isatty() else "concise"
    if value not in FORMATS:
        raise click.BadParameter(f"{value!r} is not one of {', '.join(FORMATS)}", param_hint="--output-format")
    return value


def parse_files(values: Iterable[str]) -> list[tuple[str, Path]]:
    """The formats and files of ``--output FORMAT:FILE``. Raises BadParameter."""
    files: list[tuple[str, Path]] = []
    for value in values:
        fmt, colon, name = value.partition(":")
        if not (colon and name):
            raise click.BadParameter(f"{value!r} is not of the form FORMAT:FILE", param_hint="--output")
        if fmt not in FORMATS:
            raise click.BadParameter(f"{fmt!r} is not one of {', '.join(FORMATS)}", param_hint="--output")
        files.append((fmt, Path(os.path.abspath(name))))
    return files


def write_statistics(findings: Iterable[Finding], *, as_json: bool, to_stderr: bool = False) -> None:
    """Write how often each rule was reported, the most frequent first, as a table or as JSON. Raises OutputError."""
    listed = list(findings)
    names = {finding.code: finding.name for finding in listed}
    counts = sorted(Counter(finding.code for finding in listed).items(), key=lambda item: (-item[1], item[0]))
    if as_json:
        import json

        rows = [{"code": code, "name": names[code], "count": count} for code, count in counts]
        text = json.dumps(rows, indent=2) + "\n"
    else:
        width = max((len(str(count)) for _, count in counts), default=0)
        text = "".join(f"{count:>{width}}  {code}  {names[code]}\n" for code, count in counts)
    (streams.draw if to_stderr else streams.write)(text)


def note_timing(report: Report) -> None:
    """Write to standard error what each rule and phase took, the longest first."""
    for name, seconds in sorted(report.timing.items(), key=lambda item: -item[1]):
        streams.draw(f"{seconds * 1000:10.1f} ms  {name}\n")
    if report.cached:
        files = count(report.cached, "file")
        streams.draw(f"              results of {files} come from the cache, for which no rule ran (see --no-cache)\n")
    streams.draw(f"{report.seconds * 1000:10.1f} ms  in all, on the clock\n")


def tell_newcomer(report: Report) -> None:
    """Say to standard error what to do next about what rules have found."""
    from dllint.config.selectors import ENGINE_CODES

    first = next((finding.code for finding in report.findings if finding.code not in ENGINE_CODES), None)
    if first is not None:
        streams.note(
            f"next: `dllint rule {first}` says what the first finding costs and how to mend it; "
            "`dllint baseline` accepts what is there, so that only new findings are reported"
        )


def exit_code(project: Project, *, exit_zero: bool = False) -> int:
    """0 for a clean run, 1 for findings at or above the severity to fail on, 2 where dllint could not do its work."""
    if project.problems or any(part.report.problems for part in project.parts):
        return 2
    return int(not exit_zero and any(map(_fails, project.parts)))


def _fails(part: Part) -> bool:
    if part.settings.fail_on == "never":
        return False
    limit = SEVERITY_RANK[part.settings.fail_on]
    answers = (finding for finding in part.report.findings if finding.confidence != "possible")
    return any(SEVERITY_RANK[finding.severity] >= limit for finding in answers)
