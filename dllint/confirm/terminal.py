"""The report of a run for people: a line for each verdict, the order of events, and the loss as a picture."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from dllint.confirm.evidence import Judgement, Record
from dllint.confirm.rules import EXPERIMENTS
from dllint.confirm.verdicts import Settled, Verdicts
from dllint.report.style import Style
from dllint.report.text import count, one_line

_TONES = {"CONFIRMED": "red", "ALARM": "red", "NOTE": "cyan", "REFUTED": "green", "FAILED": "red", "PASSED": "green"}
_BLOCKS = "▁▂▃▄▅▆▇█"
_WIDTH = 60
_ENDS = {
    "budget": "its budget of steps was spent",
    "backwards": "no optimizer took a step",
    "time": "its time was over",
    "exception": "an exception ended it",
    "end": "the script ended",
}


def render(verdicts: Verdicts, records: Sequence[Record], *, color: bool) -> str:
    """The whole report."""
    style = Style(color)
    lines = [line for item in verdicts.settled for line in (_settled(item, style), *_answers(item))]
    lines += [_unasked(label, judgement, style) for label, judgement in verdicts.shown()]
    for record in records:
        lines += ["", *_run(record)]
    lines += _questions(verdicts.questions, style)
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


def _settled(item: Settled, style: Style) -> str:
    finding = item.finding
    place = _place(finding.location.path, finding.location.cell, finding.location.line)
    what = item.judgement.message if item.judgement is not None else item.reason
    steps = "" if item.judgement is None else _steps(item.judgement)
    premise = f" ({one_line(item.premise)})" if item.premise and not item.answers else ""
    return f"{_label(item.answer, style)} {finding.code} {place} {finding.name}: {one_line(what)}{steps}{premise}"


def _answers(item: Settled) -> Iterator[str]:
    """A line for each thing that the finding assumes, with what the run answers to it."""
    for each in item.answers:
        yield f"{'':13}{one_line(each.assumption.text)}? {each.answer}: {one_line(each.why)}"


def _questions(questions: Sequence[Settled], style: Style) -> list[str]:
    """What the linter has asked without being sure, and the run has not answered with yes."""
    if not questions:
        return []
    told = [line for item in questions for line in (_settled(item, style), *_answers(item))]
    return ["", f"The linter asked {count(len(questions), 'more question')}, which no finding depends on:", *told]


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
        f"{_ENDS.get(record.stop, record.stop)}" + (f" ({one_line(record.error)})" if record.error else ""),
        f"events: {record.timeline[:_WIDTH]}" if record.timeline else "",
    ]
    for trace, values in record.traces.items():
        lines.append(f"{trace}: {sparkline(values)} {values[0]:.3g} to {values[-1]:.3g}")
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
