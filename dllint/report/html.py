"""``html``: one page for reading, with the findings of each training script. It loads nothing from anywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

from dllint import __version__
from dllint.findings import Finding, Fix, Location, Report
from dllint.report.context import Context
from dllint.report.diff import hunks
from dllint.report.summary import summary_line
from dllint.report.text import assumed, more_like_this, one_line, place, sentence, visible
from dllint.report.trace_drawing import drawn

_STYLE = Path(__file__).with_suffix(".css")
_QUOTED = re.compile(r"`([^`]*)`")
_AROUND = 2  # lines of code before and after a finding
_LABELS = {"safe": "safe", "unsafe": "unsafe: it changes the numbers of a run", "suggestion": "a suggestion"}


def render(report: Report, context: Context) -> str:
    """The page."""
    scripts: dict[str, list[Finding]] = {}
    for finding in report.findings:
        scripts.setdefault(_script(finding), []).append(finding)
    links = "".join(
        f'<li><a href="#script-{number}">{_text(context.relative(path))}</a> <span class="dim">{len(found)}</span></li>'
        for number, (path, found) in enumerate(scripts.items(), start=1)
    )
    sections = "\n".join(
        f'<section id="script-{number}"><h2>{_text(context.relative(path))}</h2>\n'
        + "\n".join(_article(finding, context) for finding in found)
        + "</section>"
        for number, (path, found) in enumerate(scripts.items(), start=1)
    )
    problems = "".join(f'<p class="error">{_text(f"{each.path}: {each.message}")}</p>' for each in report.problems)
    return f"""\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>dllint: {_text(summary_line(report))}</title>
<style>
{_STYLE.read_text("utf-8")}</style>
</head>
<body><main>
<h1>{_text(summary_line(report))}</h1>
<p class="dim">dllint {__version__}, by training script</p>
{problems}<nav><ul>{links}</ul></nav>
{sections}
</main></body>
</html>
"""


def _script(finding: Finding) -> str:
    """The file in which a finding takes effect: where its trace ends."""
    return finding.trace[-1].location.path if finding.trace else finding.location.path


def _article(finding: Finding, context: Context) -> str:
    rule = f"{finding.code} {finding.name}"
    named = f'<a href="{escape(finding.url, quote=True)}">{_text(rule)}</a>' if finding.url else _text(rule)
    drawing = drawn(finding.trace, context.sources)
    figure = f"<figure>{drawing}</figure>" if drawing else ""
    facts = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in _facts(finding))
    fixes = "".join(_fix(fix, finding.location.path, context) for fix in finding.fixes)
    message = _words(sentence(finding.message))
    return (
        f'<article><h3><span class="{finding.severity}">{finding.severity}</span> {message}</h3>'
        f'<div class="place">{_text(place(finding.location))} · {named}</div>'
        f"{_code(finding.location, context)}<dl>{facts}</dl>{figure}{fixes}</article>"
    )


def _facts(finding: Finding) -> Iterator[tuple[str, str]]:
    """What is said below the code, by name, as HTML."""
    if finding.effect:
        yield "effect", _words(sentence(finding.effect))
    if finding.help:
        yield "what to do", _words(sentence(finding.help))
    if finding.confidence != "certain":
        texts = assumed(finding)
        yield "how sure", _words(finding.confidence + (f", assuming that {' and that '.join(texts)}" if texts else ""))
    if finding.others:
        yield "elsewhere", _words(more_like_this(finding))


def _code(location: Location, context: Context) -> str:
    """The lines around a finding, with what it is about marked."""
    lines = context.sources.lines(location)
    if not 0 < location.line <= len(lines):
        return ""
    first = max(1, location.line - _AROUND)
    rows = []
    for number in range(first, min(len(lines), location.end_line + _AROUND) + 1):
        text = visible(lines[number - 1])
        if location.line <= number <= location.end_line:
            start = location.column - 1 if number == location.line else len(text) - len(text.lstrip())
            end = location.end_column - 1 if number == location.end_line else len(text)
            shown = f"{escape(text[:start])}<mark>{escape(text[start:end])}</mark>{escape(text[end:])}"
        else:
            shown = escape(text)
        rows.append(f'<span class="dim">{number:>4}</span>  {shown}')
    return f"<pre>{chr(10).join(rows)}</pre>"


def _fix(fix: Fix, path: str, context: Context) -> str:
    classes = {" ": "keep", "-": "cut", "+": "add"}
    rows = [
        f'<span class="{classes[line.sign]}">{line.sign} {escape(visible(line.text))}</span>'
        for hunk in hunks(path, fix, context.sources)
        for line in hunk.lines
    ]
    change = f"<pre>{''.join(rows)}</pre>" if rows else ""
    return f"<dl><dt>fix</dt><dd>{_words(one_line(fix.message))} ({_LABELS[fix.safety]}){change}</dd></dl>"


def _text(text: str) -> str:
    return escape(one_line(text), quote=True)


def _words(text: str) -> str:
    """Text in which what stands between backticks is code."""
    return _QUOTED.sub(r"<code>\1</code>", _text(text))
