"""``markdown``: a table of the findings, for the summary of a CI run or a comment on a pull request."""

from __future__ import annotations

from dllint.findings import Finding, Report
from dllint.report.context import Context
from dllint.report.summary import summary_line
from dllint.report.text import doubts, one_line, place

_MOST = 200  # rows: GitHub takes summaries of up to 1 MiB


def render(report: Report, context: Context) -> str:
    """A heading, a table with a row for each finding, and what kept dllint from its work."""
    lines = ["## dllint", "", f"{summary_line(report)}."]
    if report.findings:
        lines += ["", "| | where | rule | what | what to do |", "| --- | --- | --- | --- | --- |"]
        lines += [_row(finding, context) for finding in report.findings[:_MOST]]
    if len(report.findings) > _MOST:
        lines += ["", f"And {len(report.findings) - _MOST} more."]
    if report.problems:
        told = (
            f"{problem.path}: {problem.message}" if problem.path else problem.message for problem in report.problems
        )
        lines += ["", *(f"- {_cell(text)}" for text in told)]
    return "\n".join(lines) + "\n"


def _row(finding: Finding, context: Context) -> str:
    where = place(finding.location).replace(finding.location.path, context.relative(finding.location.path), 1)
    name = f"{finding.code} {finding.name}"
    rule = f"[{name}]({finding.url})" if finding.url else name
    what = f"{finding.message}: {finding.effect}" if finding.effect else finding.message
    doubt = doubts(finding)
    what += f" ({doubt})" if doubt else ""
    cells = (finding.severity, f"`{where.replace('`', '')}`", rule, _cell(what), _cell(finding.help))
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _cell(text: str) -> str:
    """Text in one line that cannot be taken for HTML."""
    return one_line(text).replace("<", "&lt;")
