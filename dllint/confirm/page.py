"""The report of a run as one HTML file, with pictures, that opens without a network."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from dllint.confirm.evidence import MARKS, Judgement, Record
from dllint.confirm.launch import Outcome
from dllint.confirm.rules import EXPERIMENTS
from dllint.confirm.verdicts import Settled, Verdicts

_WIDTH, _HEIGHT, _MARGIN = 640, 160, 6
_LOGARITHMIC = ("lr", "update_ratio", "scale", "loss by rate")
_TONES = {"CONFIRMED": "bad", "ALARM": "bad", "REFUTED": "good", "NOTE": "plain"}
_COLOURS = {"E": "#999", "F": "#4a90d9", "f": "#a9cdf0", "B": "#e08a2e", "Z": "#ccc", "S": "#3d9a50", "L": "#8e5bb5"}
_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 62em; padding: 0 1em; color: #222; }
h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin-top: 2em; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; vertical-align: top; padding: .35em .6em; }
tr + tr td { border-top: 1px solid #ddd; } code { font-size: .92em; } figure { margin: 1em 0; }
.bad { color: #b3261e; font-weight: 600; } .good { color: #2e7d32; font-weight: 600; } .plain { font-weight: 600; }
.events span { display: inline-block; width: 1.15em; text-align: center; font: 12px monospace; color: #fff; }
polyline { fill: none; stroke: #2f6db3; stroke-width: 1.5; } rect { fill: #f6f6f6; } figcaption { font-size: .9em; }
"""


def as_page(verdicts: Verdicts, outcome: Outcome) -> str:
    """The verdicts and the course of each run as an HTML document."""
    command = escape(" ".join(outcome.command))
    body = "".join([*_verdicts(verdicts), *(part for record in outcome.records for part in _run(record))])
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>dllint confirm</title>'
        f"<style>{_STYLE}</style></head>\n<body><h1>dllint confirm</h1><p><code>{command}</code></p>\n{body}"
        "</body></html>\n"
    )


def _verdicts(verdicts: Verdicts) -> Iterator[str]:
    rows = [_settled(item) for item in verdicts.settled]
    rows += [_row("ALARM", judgement.rule, _place(judgement), judgement) for judgement in verdicts.alarms]
    rows += [_row("NOTE", judgement.rule, _place(judgement), judgement) for judgement in verdicts.notes]
    rows += [_row(_experiment(judgement), judgement.rule, "", judgement) for judgement in verdicts.experiments]
    if rows:
        yield "<table><tr><th>Verdict</th><th>Rule</th><th>Place</th><th>Evidence</th></tr>\n" + "".join(rows)
        yield "</table>\n"
    else:
        yield "<p>There is nothing to settle.</p>\n"


def _settled(item: Settled) -> str:
    location = item.finding.location
    return _row(item.answer, item.finding.code, f"{location.path}:{location.line}", item.judgement, item.reason)


def _experiment(judgement: Judgement) -> str:
    if judgement.voice == "note":
        return "NOTE"
    return {"CONFIRMED": "FAILED", "REFUTED": "PASSED"}.get(judgement.verdict, judgement.verdict)


def _place(judgement: Judgement) -> str:
    frame = judgement.stacks[0][0] if judgement.stacks and judgement.stacks[0] else None
    return f"{os.path.relpath(frame.path)}:{frame.line}" if frame is not None else ""


def _row(label: str, rule: str, place: str, judgement: Judgement | None, reason: str = "") -> str:
    what = escape(reason)
    if judgement is not None:
        facts = "".join(_fact(name, value) for name, value in judgement.statistics.items())
        what = (
            f"{escape(judgement.message)}<details><summary>{judgement.events} observations, steps "
            f"{judgement.steps[0]} to {judgement.steps[1]}</summary><p>Threshold: {escape(judgement.threshold)}.</p>"
            f"<table>{facts}</table></details>"
        )
    tone = _TONES.get(label, "bad" if label == "FAILED" else "good" if label == "PASSED" else "plain")
    cells = f"<td>{escape(rule)}</td><td><code>{escape(place)}</code></td><td>{what}</td>"
    return f'<tr><td class="{tone}">{label}</td>{cells}</tr>\n'


def _fact(name: str, value: Any) -> str:
    if isinstance(value, dict):
        value = "; ".join(f"{key}: {item}" for key, item in value.items())
    elif isinstance(value, list):
        value = ", ".join(f"{item:.4g}" if isinstance(item, float) else str(item) for item in value)
    elif isinstance(value, float):
        value = f"{value:.4g}"
    return f"<tr><td>{escape(name.replace('_', ' '))}</td><td>{escape(str(value))}</td></tr>"


def _run(record: Record) -> Iterator[str]:
    modes = {mode: name for name, (mode, _) in EXPERIMENTS.items()}
    title = modes.get(record.mode, "The run") + (f", rank {record.rank}" if record.rank else "")
    error = f" {escape(record.error)}." if record.error else ""
    yield (
        f"<h2>{escape(title)}</h2><p>{record.steps} steps, {record.backwards} backward passes, {record.epochs} epochs "
        f"of loaders in {record.elapsed:.1f} s on {escape(record.device)}, torch {escape(record.torch)}. Ended by "
        f"{escape(record.stop)}.{error} Probes took {record.seconds.get('attachment', 0.0):.2f} s.</p>\n"
    )
    yield _events(record.timeline)
    for name, values in record.traces.items():
        yield _chart(name, values)
    for failure in record.errors:
        yield f"<p class='bad'>The probe {escape(failure.probe)} failed.</p><pre>{escape(failure.traceback)}</pre>\n"


def _events(timeline: str) -> str:
    names = {letter: name for name, letter in MARKS.items()}
    spans = "".join(
        f'<span style="background:{_COLOURS.get(letter, "#666")}" title="{names.get(letter, "")}">{letter}</span>'
        for letter in timeline[:200]
    )
    return f'<div class="events">{spans}</div>\n'


def _chart(name: str, values: Sequence[float]) -> str:
    """A trace as a curve, with its numbers beside it."""
    finite = [value for value in values if math.isfinite(value)]
    is_logarithmic = name in _LOGARITHMIC and bool(finite) and min(finite) > 0
    caption = f"{escape(name)}{', logarithmic' if is_logarithmic else ''}: no finite value"
    points = ""
    if finite:
        caption = caption.rpartition(":")[0]
        caption += f": {finite[0]:.4g} to {finite[-1]:.4g}, least {min(finite):.4g}, most {max(finite):.4g}"
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in _points(values, is_logarithmic))
    if len(finite) < len(values):
        caption += f"; {len(values) - len(finite)} not finite"
    return (
        f'<figure><svg viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" role="img" '
        f'aria-label="{escape(name)}"><rect width="{_WIDTH}" height="{_HEIGHT}"/><polyline points="{points}"/></svg>'
        f"<figcaption>{caption}</figcaption></figure>\n"
    )


def _points(values: Sequence[float], is_logarithmic: bool) -> Iterator[tuple[float, float]]:
    """Where the finite values are on the chart."""
    shown = [(at, math.log(v) if is_logarithmic else v) for at, v in enumerate(values) if math.isfinite(v)]
    low, high = min(v for _, v in shown), max(v for _, v in shown)
    across, up = _WIDTH - 2 * _MARGIN, _HEIGHT - 2 * _MARGIN
    for at, value in shown:
        share = (value - low) / (high - low) if high > low else 0.5
        yield _MARGIN + across * at / max(len(values) - 1, 1), _MARGIN + up * (1 - share)
