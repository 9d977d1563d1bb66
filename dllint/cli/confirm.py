"""``dllint confirm``: lint a script, run it under probes, and say which findings the run bears out."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dllint.cli import streams
from dllint.cli.options import color_option, configuration, configuration_options, possible_option
from dllint.cli.target import Target, command_of, target_of
from dllint.errors import Terminated, nearest

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
    epilog="Exit code: 0 nothing is confirmed, 1 something is, 2 the script failed, 3 the run reached nothing that a "
    "finding is about.",
)
@click.argument("script", required=False, type=click.Path())
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--run", "launcher", metavar="COMMAND", help="Run this command (torchrun ...) instead of the script.")
@click.option("--module", "-m", metavar="NAME", help="Run a module, as `python -m` does, instead of a script.")
@click.option("--python", metavar="FILE", help="The Python that runs the script.  [default: that of dllint]")
@click.option(
    "--steps",
    type=click.IntRange(min=0),
    default=24,
    show_default=True,
    help="Stop after this many steps; 0: no bound.",
)
@click.option(
    "--epoch-batches",
    type=click.IntRange(min=0),
    default=8,
    show_default=True,
    help="Stop each pass over a loader after this many batches; 0: no bound.",
)
@click.option(
    "--max-seconds",
    type=click.FloatRange(min=0),
    default=120.0,
    show_default=True,
    help="Stop after this many seconds; 0: never.",
)
@click.option(
    "--every", type=click.IntRange(min=1), default=10, show_default=True, help="Look at one event in this many."
)
@click.option("--probes", metavar="NAMES", help="Use these probes, or all but `-name,-name`; `list` shows them.")
@click.option("--overfit-one-batch", is_flag=True, help="Run again, on one batch: does the loss fall?")
@click.option("--lr-range", is_flag=True, help="Run again, with a rising learning rate: where does the loss fall?")
@click.option("--resume-check", is_flag=True, help="Run twice again: does the second run continue the first?")
@click.option("--in-place", is_flag=True, help="Let the script write its checkpoints and logs to where it wants.")
@click.option("--quiet", "-q", is_flag=True, help="Do not show what the script prints.")
@click.option("--only", metavar="CODES", help="Decide these rules only, with commas between them.")
@color_option
@possible_option
@click.option("--findings", type=click.Path(), metavar="FILE", help="Decide the findings of this JSON report.")
@click.option("--json", "json_file", type=click.Path(), metavar="FILE", help="Write the evidence to a file as well.")
@click.option("--sarif", "sarif_file", type=click.Path(), metavar="FILE", help="Write the verdicts as SARIF as well.")
@click.option("--html", "html_file", type=click.Path(), metavar="FILE", help="Write a page with pictures as well.")
@configuration_options
def command(**given: Any) -> int:
    """Lint SCRIPT, run it with ARGUMENTS (after `--`) for some steps, and decide each finding by what it does.

    Needs torch, which the script needs anyway. The script's own files stay as they are.
    """
    from tempfile import TemporaryDirectory

    if given["probes"] == "list":
        from dllint.confirm.listing import listing

        streams.write(listing())
        return 0
    with ending_with_sigterm(), TemporaryDirectory(prefix="dllint-confirm-") as folder:
        return _run(given, target_of(given, Path(folder)))


def _run(given: dict[str, Any], target: Target) -> int:
    """Lint what is to be run, run it, and report. Returns the exit code."""
    only = _codes(given, target.files) if given["only"] is not None else set()
    settings = _settings(given, target)
    found, asked = (_from_report(given["findings"]), []) if given["findings"] else _lint(target.files, given)
    findings, questions = _wanted(found, only), _wanted(asked, only)
    outcome, verdicts = confirm(target, findings, settings, given["in_place"], not given["quiet"], questions)
    for experiment in ("overfit-one-batch", "lr-range"):
        if given[experiment.replace("-", "_")]:
            _add_experiment(experiment, target, given, outcome, verdicts)
    if given["resume_check"]:
        _check_resuming(target, given, outcome, verdicts)
    from dllint.confirm.terminal import render
    from dllint.confirm.verdicts import set_questions_aside

    set_questions_aside(verdicts)
    streams.write(render(verdicts, outcome.records, color=streams.has_color(sys.stdout)))
    _write_files(given, verdicts, outcome)
    return _exit_code(verdicts, outcome)


def confirm(
    target: Target,
    findings: list[Finding],
    settings: Settings,
    in_place: bool,
    show_output: bool,
    questions: Sequence[Finding] = (),
) -> tuple[Outcome, Verdicts]:
    """Run a command under probes, and join what it shows with findings and questions. Raises RunError."""
    from dllint.confirm.launch import run
    from dllint.confirm.terminal import told
    from dllint.confirm.verdicts import settle

    outcome = run(target.words, settings, in_place=in_place, show_output=show_output)
    if target.notebook is not None:
        target.notebook.return_to_cells(outcome.records)
    for line in told(outcome):
        streams.warn(line)
    return outcome, settle(findings, outcome.records, questions)


def _add_experiment(name: str, target: Target, given: dict[str, Any], outcome: Outcome, verdicts: Verdicts) -> None:
    """Run the command for an experiment, and add what comes out to what the first run has shown."""
    from dataclasses import replace

    from dllint.confirm.rules import EXPERIMENTS

    mode, steps = EXPERIMENTS[name]
    settings = replace(_settings(given, target), mode=mode, steps=steps, epoch_batches=0)
    run, shown = confirm(target, [], settings, in_place=False, show_output=not given["quiet"])
    if not shown.experiments:
        streams.warn(f"{name}: the script made too few steps")
    outcome.records += run.records
    verdicts.experiments += shown.experiments


def _check_resuming(target: Target, given: dict[str, Any], outcome: Outcome, verdicts: Verdicts) -> None:
    """Run the command twice over the same files, and add whether the second run continues the first."""
    from dataclasses import replace
    from tempfile import TemporaryDirectory

    from dllint.confirm.comparing import compare_runs
    from dllint.confirm.launch import run
    from dllint.confirm.verdicts import settle_by_resuming

    settings = replace(_settings(given, target), mode="resume")
    with TemporaryDirectory(prefix="dllint-confirm-") as folder:
        options = {"in_place": given["in_place"], "show_output": not given["quiet"], "files": Path(folder, "files")}
        first, second = (run(target.words, settings, **options) for _ in range(2))
    if first.records:
        compared = compare_runs(first.records[0], second.records[0] if second.records else None)
        settle_by_resuming(verdicts, compared)
        outcome.records += [first.records[0], *second.records[:1]]
    else:
        streams.warn("resume-check: the script made no step")


def settle_project(project: Project, text: str) -> None:
    """Drop the findings of a project that running a command refutes, and promote what it confirms, questions as well.

    Args:
        project: the project, which has been linted.
        text: the command as for a shell; a script may stand for Python running it.

    Raises:
        RunError: the command cannot be run.
        UsageError: the command is none, or cannot be observed.
    """
    from collections import Counter
    from tempfile import TemporaryDirectory

    from dllint.confirm.evidence import Settings
    from dllint.confirm.verdicts import set_questions_aside, settle, upheld

    findings = [finding for part in project.parts for finding in part.report.findings]
    questions = [finding for part in project.parts for finding in part.report.questions]
    with ending_with_sigterm(), TemporaryDirectory(prefix="dllint-confirm-") as folder:
        target = command_of(text, sys.executable, Path(folder))
        settings = Settings(records="", notebook=_folder(target))
        outcome, verdicts = confirm(target, findings, settings, False, False, questions)
    for part in project.parts:
        answered = settle(part.report.findings, outcome.records, part.report.questions)
        part.report.findings = upheld(answered)
    set_questions_aside(verdicts)
    answers = Counter(item.answer.lower() for item in verdicts.settled)
    told = ", ".join(f"{number} {answer}" for answer, number in answers.items())
    streams.note(f"a run settled: {told or 'nothing'}")


@contextmanager
def ending_with_sigterm() -> Iterator[None]:
    """While this is entered, being told to end raises Terminated, so that what was started and made goes as well."""

    def end(*_: object) -> None:
        raise Terminated

    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _settings(given: dict[str, Any], target: Target) -> Settings:
    from dllint.confirm.evidence import Settings
    from dllint.confirm.listing import chosen

    names = ("steps", "epoch_batches", "max_seconds", "every")
    probes = chosen(given["probes"]) if given["probes"] else []
    return Settings(records="", probes=probes, notebook=_folder(target), **{name: given[name] for name in names})


def _folder(target: Target) -> str:
    """Where a notebook is run; empty for all else."""
    return str(target.notebook.folder) if target.notebook is not None else ""


def _lint(files: list[str], given: dict[str, Any]) -> tuple[list[Finding], list[Finding]]:
    """The findings in files, and the questions: what is possible only."""
    from dllint.cli.project import lint, merged

    project = _project(given, files)
    lint(project, cache=False)  # nothing is to be new in the folder that the script finds
    report = merged(project)
    return report.findings, report.questions


def _project(given: dict[str, Any], files: list[str]) -> Project:
    from dllint.cli.project import find_project

    return find_project(files, configuration(given), respect_excludes=False, with_importers=False)


def _codes(given: dict[str, Any], files: list[str]) -> set[str]:
    """The codes that are asked for. Raises UsageError for one that nothing has."""
    from dllint.confirm.rules import judged
    from dllint.registry import load_rules

    codes = {code.strip() for code in given["only"].split(",") if code.strip()}
    if not codes:
        raise click.UsageError("--only takes codes, with commas between them")
    settings = [part.settings for part in _project(given, files).parts]
    rules = (*load_rules(), *(rule for each in settings for rule in load_rules(each.rule_paths, each.plugins)))
    known = {rule.code for rule in rules} | set(judged())
    for code in sorted(codes - known):
        near = nearest(code, known)
        raise click.UsageError(f"there is no rule {code}" + (f"; do you mean {near}?" if near else ""))
    return codes


def _wanted(findings: list[Finding], codes: set[str]) -> list[Finding]:
    """Those with the codes that were named; without any, all but the notes that no run can decide."""
    from dllint.confirm.rules import judged

    if codes:
        return [finding for finding in findings if finding.code in codes]
    return [finding for finding in findings if finding.severity != "info" or finding.code in judged()]


def _from_report(file: str) -> list[Finding]:
    """The findings of a report that ``dllint check --output-format json`` wrote, one for each place.

    Raises:
        OutputError: the file is no such report.
    """
    import json

    from dllint.assumptions import Assumption
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
                location=location(place),
                assumptions=tuple(Assumption(each["kind"], each["text"]) for each in record["assumptions"]),
                trace=tuple(Hop(location(hop), hop["message"]) for hop in record["trace"]),
            )
            for record in records
            if record["code"] is not None  # else it tells of a file that could not be read
            for place in (record, *record["others"])
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise streams.OutputError(f"{file} is no JSON report of dllint: {error}") from error


def _write_files(given: dict[str, Any], verdicts: Verdicts, outcome: Outcome) -> None:
    """Write the reports that are asked for. Raises OutputError."""
    from dllint.confirm.documents import as_json
    from dllint.confirm.page import as_page

    for option, render in (("json_file", as_json), ("html_file", as_page), ("sarif_file", _as_sarif)):
        if file := given[option]:
            try:
                Path(file).write_text(render(verdicts, outcome), encoding="utf-8")
            except OSError as error:
                raise streams.OutputError(f"{file} cannot be written: {error.strerror}") from error


def _as_sarif(verdicts: Verdicts, outcome: Outcome) -> str:
    from dllint.confirm.documents import as_sarif
    from dllint.registry import load_rules

    return as_sarif(verdicts, outcome, load_rules(), Path())


def _exit_code(verdicts: Verdicts, outcome: Outcome) -> int:
    from dllint.confirm.terminal import has_failed

    if verdicts.confirmed:
        return 1
    if has_failed(outcome):
        return FAILED
    if not any(record.judgements for record in outcome.records):
        return NOTHING_REACHED
    reached = any(item.answer not in ("NOT REACHED", "NOT TESTABLE") for item in verdicts.settled)
    return 0 if reached or not verdicts.settled else NOTHING_REACHED
