"""The report of a run as one HTML file, with charts, that opens without a network."""

from __future__ import annotations

import linecache
import os
from collections import Counter
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any

from dllint.confirm.charts import Chart, charts
from dllint.confirm.evidence import MARKS, Judgement, Record
from dllint.confirm.launch import Outcome
from dllint.confirm.rules import EXPERIMENTS
from dllint.confirm.verdicts import Verdicts
from dllint.errors import UserError

_TONES = {"CONFIRMED": "bad", "ALARM": "bad", "FAILED": "bad", "REFUTED": "good", "PASSED": "good", "NOTE": "note"}
_LONGEST_TIMELINE = 240
_STYLE = Path(__file__).with_name("page.css")


class PageError(UserError):
    """The page cannot be made. The message says why."""


def as_page(verdicts: Verdicts, outcome: Outcome) -> str:
    """The verdicts and the course of each run as an HTML document. Raises PageError without plotly."""
    try:
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise PageError('the page is drawn by plotly, which is not installed: pip install "dllint[confirm]"') from error
    command = escape(" ".join(outcome.command))
    runs = "".join(part for number, record in enumerate(outcome.records) for part in _run(record, number))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>dllint confirm</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">\n'
        f"<style>{_STYLE.read_text(encoding='utf-8')}</style>\n<script>{get_plotlyjs()}</script></head>\n"
        f"<body><main><h1>dllint confirm</h1><code>{command}</code>\n"
        f"{_chips(verdicts)}{_verdicts(verdicts)}{runs}</main></body></html>\n"
    )


def _chips(verdicts: Verdicts) -> str:
    labels = [*(item.answer for item in verdicts.settled), *(label for label, _ in verdicts.shown())]
    chips = [f'<li class="{_TONES.get(name, "")}">{count} {name}</li>' for name, count in Counter(labels).items()]
    return f'<ul class="chips">{"".join(chips)}</ul>\n' if chips else ""


def _verdicts(verdicts: Verdicts) -> str:
    rows = []
    for item in verdicts.settled:
        rule, place = f"{item.finding.code} {item.finding.name}", item.finding.location
        rows.append(_row(item.answer, rule, place.path, place.line, item.judgement, item.reason, item.premise))
    for label, judgement in verdicts.shown():
        frame = judgement.frame
        path, line = (os.path.relpath(frame.path), frame.line) if frame is not None else ("", 0)
        rows.append(_row(label, judgement.rule, path, line, judgement))
    columns = '<colgroup><col class="label"><col class="place"><col></colgroup>'
    table = f'<table class="verdicts">{columns}<tbody>\n{"".join(rows)}</tbody></table>'
    return f'<div class="card">{table}</div>\n' if rows else "<p>There is nothing to settle.</p>\n"


def _row(
    label: str, rule: str, path: str, line: int, judgement: Judgement | None, reason: str = "", premise: str = ""
) -> str:
    what = f"<strong>{escape(rule)}</strong>: {escape(judgement.message if judgement is not None else reason)}"
    what += f'<p class="premise">{escape(premise)}</p>' if premise else ""
    code = linecache.getline(path, line).strip() if path else ""
    if code:
        what += f"<pre>{escape(code)}</pre>"
    if judgement is not None:
        facts = "".join(_fact(name, value) for name, value in judgement.statistics.items() if name != "draws")
        what += (
            f"<details><summary>{judgement.events} observations, steps {judgement.steps[0]} to {judgement.steps[1]}"
            f"</summary>Threshold: {escape(judgement.threshold)}.<table>{facts}</table></details>"
        )
    place = f"<code>{escape(path)}:{line}</code>" if path else ""
    badge = f'<span class="badge {_TONES.get(label, "")}">{label}</span>'
    return f"<tr><td>{badge}</td><td>{place}</td><td>{what}</td></tr>\n"


def _fact(name: str, value: Any) -> str:
    if isinstance(value, dict):
        value = "; ".join(f"{key}: {_number(item)}" for key, item in value.items())
    elif isinstance(value, list):
        value = ", ".join(_number(item) for item in value)
    return f"<tr><td>{escape(name.replace('_', ' '))}</td><td>{escape(_number(value))}</td></tr>"


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _run(record: Record, number: int) -> Iterator[str]:
    modes = {mode: name for name, (mode, _) in EXPERIMENTS.items()}
    title = modes.get(record.mode, "The run") + (f", rank {record.rank}" if record.rank else "")
    error = f" {escape(record.error)}." if record.error else ""
    yield (
        f'<h2>{escape(title)}</h2><p class="facts">{record.steps} steps, {record.backwards} backward passes, '
        f"{record.epochs} epochs of loaders in {record.elapsed:.1f} s on {escape(record.device)}, torch "
        f"{escape(record.torch)}. Ended by {escape(record.stop)}.{error} Probes took "
        f"{record.seconds.get('attachment', 0.0):.2f} s.</p>\n"
    )
    for failure in record.errors:
        yield f"<p>The probe {escape(failure.probe)} failed.</p><pre>{escape(failure.traceback)}</pre>\n"
    if record.timeline:
        yield _events(record.timeline)
    yield from _fingerprints(record)
    figures = [_figure(chart, f"chart-{number}-{index}") for index, chart in enumerate(charts(record))]
    if figures:
        yield '<div class="charts">\n' + "".join(figures) + "</div>\n"


def _events(timeline: str) -> str:
    names = {letter: name for name, letter in MARKS.items()}
    shown = timeline[:_LONGEST_TIMELINE]
    spans = "".join(f'<span class="{each}" title="{names.get(each, "")}">{each}</span>' for each in shown)
    legend = ", ".join(f"{letter} {names[letter]}" for letter in dict.fromkeys(timeline) if letter in names)
    return f'<div class="card events">{spans}<p class="legend">{legend}</p></div>\n'


def _figure(chart: Chart, identity: str) -> str:
    from plotly.io import to_html

    config = {"displaylogo": False, "responsive": True, "displayModeBar": False}
    options = {"include_plotlyjs": False, "full_html": False, "validate": False, "div_id": identity}
    drawn = to_html(chart.figure, config, **options, default_height=f"{chart.height}px")
    return (
        f'<figure class="card{" wide" if chart.is_wide else ""}"><h3>{chart.title}</h3>{drawn}'
        f"<figcaption>{escape(chart.caption)}</figcaption></figure>\n"
    )


def _fingerprints(record: Record) -> Iterator[str]:
    """The random states of workers side by side: equal ones have the same color."""
    for judgement in (judgement for judgement in record.judgements if judgement.statistics.get("draws")):
        generator = escape(str(judgement.statistics.get("generator")))
        rows = "".join(
            f"<tr><td>{escape(place)}</td>{''.join(map(_state, states))}</tr>"
            for place, states in judgement.statistics["draws"].items()
        )
        yield (
            f'<div class="card states"><h3>Random states of workers, by <code>{generator}</code></h3>'
            f'<table class="prints"><tr><th></th><th>before the first batch</th><th>after it</th></tr>{rows}</table>'
            f"<figcaption>{escape(judgement.message)}</figcaption></div>\n"
        )


def _state(state: str) -> str:
    hue = int(state[:6], 16) % 360 if state and set(state[:6]) <= set("0123456789abcdef") else 0
    return f'<td class="state" style="border-color:hsl({hue} 65% 55%)">{escape(state)}</td>'
