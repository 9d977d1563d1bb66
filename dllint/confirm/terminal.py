"""The report of a run for people: a line for each verdict, the order of events, and the loss as a picture; and how the
command ended: whether it failed, by what, and what to try where it came to no step."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence

from dllint.confirm.evidence import Judgement, Record
from dllint.confirm.launch import Outcome
from dllint.confirm.rules import EXPERIMENTS, words
from dllint.confirm.verdicts import Settled, Verdicts
from dllint.report.style import Style
from dllint.report.text import count, one_line

_TONES = {"CONFIRMED": "red", "ALARM": "red", "NOTE": "cyan", "REFUTED": "green", "FAILED": "red", "PASSED": "green"}
_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDTH = 60
_BY_BUDGET = ("budget", "backwards", "time")
_INTERRUPTED = (-signal.SIGINT, 128 + signal.SIGINT)
_SHOWN = 8  # of its last lines


def render(verdicts: Verdicts, records: Sequence[Record], *, color: bool) -> str:
    """The whole report."""
    style = Style(color)
    lines = [line for item in verdicts.settled for line in _settled(item, style)]
    lines += [_unasked(label, judgement, style) for label, judgement in verdicts.shown()]
    for record in records:
        lines += ["", *_run(record)]
    if verdicts.questions:  # what the linter has asked without being sure, and the run has not answered with yes
        asked = count(len(verdicts.questions), "more question")
        lines += ["", f"The linter asked {asked}, which no finding depends on:"]
        lines += [line for item in verdicts.questions for line in _settled(item, style)]
    return "\n".join([*lines, "", _summary(verdicts)]) + "\n"


def sparkline(values: Sequence[float]) -> str:
    """Numbers as a row of blocks, at most 60; what is no number is a question mark."""
    step = max(1, -(-len(values) // _WIDTH))
    shown = values[::step]
    finite = [value for value in shown if value - value == 0]
    if not finite:
        return "?" * len(shown)
    low, high = min(finite), max(finite)
    scale = (len(_BLOCKS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BLOCKS[round((value - low) * scale)] if value - value == 0 else "?" for value in shown)


def _settled(item: Settled, style: Style) -> Iterator[str]:
    """A finding, and a line for each thing that it assumes, with what the run answers to it."""
    finding = item.finding
    place = _place(finding.location.path, finding.location.cell, finding.location.line)
    what, steps = (item.judgement.message, _steps(item.judgement)) if item.judgement is not None else (item.reason, "")
    premise = f" ({one_line(item.premise)})" if item.premise and not item.answers else ""
    yield f"{_label(item.answer, style)} {finding.code} {place} {finding.name}: {one_line(what)}{steps}{premise}"
    for each in item.answers:
        yield f"{'':13}{one_line(each.assumption.text)}? {each.answer}: {one_line(each.why)}"


def _unasked(label: str, judgement: Judgement, style: Style) -> str:
    frame = judgement.frame
    place = f" {_place(os.path.relpath(frame.path), frame.cell, frame.line)}" if frame is not None else ""
    steps = "" if judgement.rule in EXPERIMENTS else _steps(judgement)
    return f"{_label(label, style)} {judgement.rule}{place}: {one_line(judgement.message)}{steps}"


def _place(path: str, cell: int | None, line: int) -> str:
    return f"{one_line(path)}:{line}" if cell is None else f"{one_line(path)}:cell {cell}:{line}"


def _steps(judgement: Judgement) -> str:
    first, last = judgement.steps
    return f" [step {first}]" if first == last else f" [steps {first} to {last}]"


def _label(text: str, style: Style) -> str:
    return style.paint(f"{text:12}", "bold", _TONES.get(text, "yellow"))


def _run(record: Record) -> list[str]:
    name = (record.mode if record.mode != "observe" else "run") + (f" of rank {record.rank}" if record.rank else "")
    spent = record.seconds.get("attachment", 0.0)
    lines = [
        f"{name}: {count(record.steps, 'step')}, {count(record.backwards, 'backward call')}, "
        f"{count(record.epochs, 'epoch')} of loaders in {record.elapsed:.1f} s on {record.device}; "
        f"{words()['ends'].get(record.stop, record.stop)}" + (f" ({one_line(record.error)})" if record.error else ""),
        f"events: {record.timeline[:_WIDTH]}" if record.timeline else "",
    ]
    traces = record.traces.items()
    lines += [f"{trace}: {sparkline(values)} {values[0]:.3g} to {values[-1]:.3g}" for trace, values in traces]
    lines.append(f"probes: {spent:.2f} s, {100 * spent / max(record.elapsed, 1e-9):.1f} % of the run")
    lines += [f"a probe failed: {error.probe}: {error.traceback.splitlines()[-1]}" for error in record.errors]
    if record.redirected:
        lines.append(f"not written: {count(len(record.redirected), 'file')} of the script (see --in-place)")
    return [line for line in lines if line]


def _summary(verdicts: Verdicts) -> str:
    answers = [item.answer for item in verdicts.settled]
    parts = [f"{answers.count(answer)} {answer.lower()}" for answer in dict.fromkeys(answers)]
    parts += [count(len(verdicts.alarms), "alarm")] if verdicts.alarms else []
    told = f"Settled {count(len(answers), 'finding')}: {', '.join(parts)}." if parts else "No findings to settle."
    if shown := [*verdicts.alarms, *verdicts.notes]:
        told += f"\n`dllint rule {shown[0].rule}` says what that means and what to do."
    return told


def has_failed(outcome: Outcome) -> bool:
    """Whether a command failed by itself: neither dllint nor the user ended it."""
    is_interrupted = any(record.error.startswith("KeyboardInterrupt") for record in outcome.records)
    stops = {record.stop for record in outcome.records}
    is_ended = is_interrupted or ("exception" not in stops and not stops.isdisjoint(_BY_BUDGET))
    return bool(outcome.exit_code) and outcome.exit_code not in _INTERRUPTED and not is_ended


def told(outcome: Outcome) -> list[str]:
    """How the command ended, as lines for people, if it failed or made no step; nothing otherwise."""
    steps = max((record.steps for record in outcome.records), default=0)
    if has_failed(outcome):
        when = f"after {steps} steps" if steps else "before any step"
        lines = [f"the command failed {when}: {_what_failed(outcome)}"]
    elif not steps and not any(record.backwards for record in outcome.records):
        lines = [_nothing(outcome)]
    else:
        return []
    if outcome.output:
        lines += ["its last lines:", *(f"  {line}" for line in outcome.output[-_SHOWN:])]
    return lines if steps else [*lines, *_advice(outcome)]


def _what_failed(outcome: Outcome) -> str:
    """The exception and the exit code, or the signal."""
    errors = [record.error for record in outcome.records if record.stop == "exception"]
    if any(line.startswith("Traceback") for line in outcome.output):
        errors += [line for line in outcome.output[-1:] if not line.startswith(" ")]
    code, signals = outcome.exit_code, {each.value: each.name for each in signal.Signals}
    how = f"signal {signals.get(-code, str(-code))}" if code < 0 else f"exit code {code}"
    return f"{errors[0]} ({how})" if errors else how


def _nothing(outcome: Outcome) -> str:
    if outcome.is_killed or any(record.stop == "time" for record in outcome.records):
        return "its time was over before any step: give it more with --max-seconds"
    if outcome.records:
        return "the command made no step and no backward pass"
    return f"the command trained nothing that the probes saw: {words()['missing'][outcome.reached]}"


def _advice(outcome: Outcome) -> Iterator[str]:
    text = "\n".join([*outcome.output, *(record.error for record in outcome.records)])
    fitting = (advice["try"] for advice in words()["advice"] if any(word in text for word in advice["words"]))
    advice = next(fitting, "see whether it trains without dllint" if has_failed(outcome) else "")
    if advice:
        yield f"try: {advice}"
