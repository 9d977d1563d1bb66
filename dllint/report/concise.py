"""``concise``: one line for each finding, and a summary."""

from __future__ import annotations

from collections.abc import Iterator

from dllint.findings import Finding, Report
from dllint.report.context import Context
from dllint.report.style import TONES, Style
from dllint.report.summary import summary_line
from dllint.report.text import doubts, one_line, place


def render(report: Report, context: Context) -> str:
    """The report as lines in the form that editors know: ``path:line:column: severity[CODE] name: message``."""
    style = Style(context.color)
    lines = [line(finding, style) for finding in report.findings]
    return "\n".join([*lines, *_notes(report, context), summary_line(report)]) + "\n"


def _notes(report: Report, context: Context) -> Iterator[str]:
    for path in dict.fromkeys(finding.location.path for finding in report.findings):
        note = context.sources.order_note(path)
        if note:
            yield f"{path}: note: {note}"


def line(finding: Finding, style: Style) -> str:
    """The line for one finding; at its end, what it assumes and how many more there are like it."""
    label = style.paint(f"{finding.severity}[{finding.code}]", "bold", TONES[finding.severity])
    head = f"{style.paint(place(finding.location), 'bold')}: {style.link(label, finding.url)}"
    more = f"and {len(finding.others)} more like this" if finding.others else ""
    remarks = "; ".join(remark for remark in (doubts(finding, brief=True), more) if remark)
    return f"{head} {finding.name}: {one_line(finding.message)}{f' ({remarks})' if remarks else ''}"
