"""``dllint confirm``: lint a script, run it under probes, and say which findings the run bears out."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from dllint.cli import streams
from dllint.cli.options import configuration, configuration_options

if TYPE_CHECKING:
    from dllint.cli.project import Project
    from dllint.confirm.evidence import Settings
    from dllint.confirm.launch import Outcome
    from dllint.confirm.verdicts import Verdicts
    from dllint.findings import Finding

FAILED, NOTHING_REACHED = 2, 3


@click.command(
    "confirm",
    short_help="Run a training script for some steps, and let the run decide.",
    epilog="Exit code: 0 nothing is confirmed, 1 something is, 2 the run failed before it showed anything, 3 it "
    "reached nothing that a finding is about.",
)
@click.argument("script", required=False, type=click.Path())
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--run", "launcher", metavar="COMMAND", help="Run this command (torchrun ...) instead of the script.")
@click.option("--module", "-m", metavar="NAME", help="Run a module, as `python -m` does, instead of a script.")
@click.option("--python", metavar="FILE", help="The Python that runs the script.  [default: that of dllint]")
@click.option("--steps", type=click.IntRange(min=0), default=24, show_default=True, help="Steps to make; 0: no bound.")
@click.option(
    "--epoch-batches",
    type=click.IntRange(min=0),
    default=8,
    show_default=True,
    help="End each pass over a loader after so many batches; 0: let it end by itself.",
)
@click.option(
    "--max-seconds", type=click.FloatRange(min=0), default=120.0, show_default=True, help="End after so long; 0: never."
)
@click.option("--every", type=click.IntRange(min=1), default=10, show_default=True, help="Sample one in so many.")
@click.option("--overfit-one-batch", is_flag=True, help="Run again, on one batch: does the loss fall?")
@click.option("--lr-range", is_flag=True, help="Run again, with a rising learning rate: where does the loss fall?")
@click.option("--in-place", is_flag=True, help="Let the script write its checkpoints and logs to where it wants.")
@click.option("--quiet", "-q", is_flag=True, help="Do not show what the script prints.")
@click.option("--only", metavar="CODES", help="Decide these rules only, with commas between them.")
@click.option("--findings", type=click.Path(), metavar="FILE", help="Decide the findings of this JSON report.")
@click.option("--json", "json_file", type=click.Path(), metavar="FILE", help="Write the evidence to a file as well.")
@click.option("--html", "html_file", type=click.Path(), metavar="FILE", help="Write a page with pictures as well.")
@configuration_options
def command(**given: Any) -> int:
    """Lint SCRIPT, run it with ARGUMENTS (behind `--`) for some steps, and decide each finding by what it does.

    Needs torch, which the script needs anyway. The script's own files stay as they are.
    """
    words, lintable = _command_of(given)
    findings = _wanted(_from_report(given["findings"]) if given["findings"] else _lint(lintable, given), given["only"])
    outcome, verdicts = confirm(words, findings, _settings(given), given["in_place"], not given["quiet"])
    for experiment in ("overfit-one-batch", "lr-range"):
        if given[experiment.replace("-", "_")]:
            _add_experiment(experiment, words, given, outcome, verdicts)
    from dllint.confirm.terminal import render

    streams.write(render(verdicts, outcome.records, color=streams.has_colour(sys.stdout)))
    _write_files(given, verdicts, outcome)
    return _exit_code(verdicts, outcome)


def confirm(
    words: list[str], findings: list[Finding], settings: Settings, in_place: bool, show_output: bool
) -> tuple[Outcome, Verdicts]:
    """Run a command under probes, and join what it shows with findings. Raises RunError."""
    from dllint.confirm.launch import run
    from dllint.confirm.verdicts import settle

    outcome = run(words, settings, in_place=in_place, show_output=show_output)
    if not outcome.records:
        streams.warn("the command trained nothing that the probes saw: is it Python, and does it use torch?")
    return outcome, settle(findings, outcome.records)


def _add_experiment(name: str, words: list[str], given: dict[str, Any], outcome: Outcome, verdicts: Verdicts) -> None:
    """Run the command for an experiment, and add what comes out to what the first run has shown."""
    from dataclasses import replace

    from dllint.confirm.rules import EXPERIMENTS

    mode, steps = EXPERIMENTS[name]
    settings = replace(_settings(given), mode=mode, steps=steps, epoch_batches=0)
    run, shown = confirm(words, [], settings, in_place=False, show_output=not given["quiet"])
    if not shown.experiments:
        streams.warn(f"{name}: the script made too few steps")
    outcome.records += run.records
    verdicts.experiments += shown.experiments


def settle_project(project: Project, text: str) -> None:
    """Drop the findings of a project that running a command refutes, and promote those that it confirms.

    Args:
        project: the project, which has been linted.
        text: the command as for a shell; a script may stand for Python running it.

    Raises:
        RunError: the command cannot be run.
        UsageError: the command is none.
    """
    from collections import Counter

    from dllint.confirm.evidence import Settings
    from dllint.confirm.verdicts import settle, upheld

    words = _split(text)
    if words[0].endswith(".py"):
        words.insert(0, sys.executable)
    findings = [finding for part in project.parts for finding in part.report.findings]
    outcome, verdicts = confirm(words, findings, Settings(records=""), in_place=False, show_output=False)
    for part in project.parts:
        part.report.findings = upheld(settle(part.report.findings, outcome.records))
    answers = Counter(item.answer.lower() for item in verdicts.settled)
    told = ", ".join(f"{number} {answer}" for answer, number in answers.items())
    streams.note(f"a run settled: {told or 'nothing'}")


def _split(text: str) -> list[str]:
    import shlex

    try:
        words = shlex.split(text)
    except ValueError as error:
        raise click.UsageError(f"{text!r} is no command: {error}") from error
    if not words:
        raise click.UsageError("the command to run is empty")
    return words


def _settings(given: dict[str, Any]) -> Settings:
    from dllint.confirm.evidence import Settings

    names = ("steps", "epoch_batches", "max_seconds", "every")
    return Settings(records="", **{name: given[name] for name in names})


def _command_of(given: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The words to run, and the files to lint. Raises UsageError."""
    from pathlib import Path

    ways = [way for way in ("launcher", "module", "script") if given[way]]
    if given["module"] and given["script"]:  # the word behind the module is its first argument
        given["arguments"] = (given["script"], *given["arguments"])
        ways.remove("script")
    if len(ways) != 1:
        raise click.UsageError("give a script, --module or --run, and just one of them")
    python = given["python"] or sys.executable
    if given["launcher"]:
        words = _split(given["launcher"])
        return words, [word for word in words if word.endswith(".py") and Path(word).is_file()]
    if given["module"]:
        stem = Path(*given["module"].split("."))
        files = [file for file in (stem.with_suffix(".py"), stem / "__main__.py") if file.is_file()]
        return [python, "-m", given["module"], *given["arguments"]], [str(file) for file in files]
    if not Path(given["script"]).is_file():
        raise click.UsageError(f"there is no script {given['script']}")
    return [python, given["script"], *given["arguments"]], [given["script"]]


def _lint(files: list[str], given: dict[str, Any]) -> list[Finding]:
    from dllint.cli.project import find_project, lint, merged

    project = find_project(files, configuration(given), respect_excludes=False)
    lint(project)
    return merged(project).findings


def _wanted(findings: list[Finding], only: str | None) -> list[Finding]:
    codes = {code.strip() for code in only.split(",")} if only else None
    return [finding for finding in findings if codes is None or finding.code in codes]


def _from_report(file: str) -> list[Finding]:
    """The findings of a report that ``dllint check --output-format json`` wrote. Raises OutputError."""
    import json
    from pathlib import Path

    from dllint.findings import Finding, Hop, Location

    def location(record: dict[str, Any]) -> Location:
        names = ("path", "line", "column", "end_line", "end_column", "cell")
        return Location(*(record[name] for name in names))

    try:
        records = json.loads(Path(file).read_text(encoding="utf-8"))
        names = ("code", "name", "message", "severity", "category", "confidence", "scope", "confirmable")
        return [
            Finding(
                **{name: record[name] for name in names},
                location=location(record),
                trace=tuple(Hop(location(hop), hop["message"]) for hop in record["trace"]),
            )
            for record in records
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise streams.OutputError(f"{file} is no JSON report of dllint: {error}") from error


def _write_files(given: dict[str, Any], verdicts: Verdicts, outcome: Outcome) -> None:
    """Write the reports that are asked for. Raises OutputError."""
    from pathlib import Path

    from dllint.confirm.page import as_page
    from dllint.confirm.record import as_json

    for option, render in (("json_file", as_json), ("html_file", as_page)):
        if file := given[option]:
            try:
                Path(file).write_text(render(verdicts, outcome), encoding="utf-8")
            except OSError as error:
                raise streams.OutputError(f"{file} cannot be written: {error.strerror}") from error


def _exit_code(verdicts: Verdicts, outcome: Outcome) -> int:
    if verdicts.confirmed:
        return 1
    if not any(record.judgements for record in outcome.records):
        return FAILED if outcome.exit_code else NOTHING_REACHED
    reached = any(item.answer not in ("NOT REACHED", "NOT TESTABLE") for item in verdicts.settled)
    return 0 if reached or not verdicts.settled else NOTHING_REACHED
