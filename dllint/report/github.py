"""``github``: annotations of a GitHub Actions run, and a summary for its page."""

from __future__ import annotations

from collections import Counter

from dllint.findings import CONFIDENCE_RANK, SEVERITY_RANK, Finding, Problem, Report
from dllint.report import concise
from dllint.report.context import Context
from dllint.report.style import Style
from dllint.report.summary import summary_line
from dllint.report.text import count, explanation, one_line, place, visible

SHOWN_PER_LEVEL = 10
"""GitHub shows this many annotations of each level in a step and silently drops the rest."""


_LEVELS = {"error": "error", "warning": "warning", "info": "notice"}


def render(report: Report, context: Context) -> str:
    """Workflow commands, the worst findings first; those that GitHub would drop follow as a folded list."""
    ranked = sorted(report.findings, key=_badness)
    used = Counter("error" for _ in report.problems)
    lines = [_problem(problem, context) for problem in report.problems]
    left_over = []
    for finding in ranked:
        level = _LEVELS[finding.severity]
        used[level] += 1
        if used[level] <= SHOWN_PER_LEVEL:
            lines.append(_annotation(finding, level, context))
        else:
            left_over.append(finding)
    if left_over:
        lines += _group(left_over)
    return "\n".join([*lines, summary_line(report)]) + "\n"


def _badness(finding: Finding) -> tuple[int, int]:
    """Sorts by severity, surer ones first; equal ones stay in the order of the report."""
    return (-SEVERITY_RANK[finding.severity], -CONFIDENCE_RANK[finding.confidence])


def _annotation(finding: Finding, level: str, context: Context) -> str:
    location = finding.location
    line, end_line = context.sources.file_lines(location)
    properties = {"file": visible(context.relative(location.path)), "line": str(line), "endLine": str(end_line)}
    if line == end_line and location.cell is None:  # GitHub takes columns only within one line
        properties |= {"col": str(location.column), "endColumn": str(location.end_column)}
    properties["title"] = f"{finding.code} {finding.name}"
    sentences = explanation(finding)
    if location.cell is not None:
        sentences.insert(0, f"Cell {location.cell}, line {location.line}:")
    sentences += [f"{place(hop.location)}: {one_line(hop.message)}" for hop in finding.trace]
    return _command(level, properties, "\n".join(sentences))


def _problem(problem: Problem, context: Context) -> str:
    properties = {"file": visible(context.relative(problem.path))} if problem.path else {}
    return _command("error", {**properties, "title": f"dllint: {problem.kind}"}, _problem_text(problem))


def _problem_text(problem: Problem) -> str:
    message = one_line(problem.message)
    return message if not problem.path or problem.path in problem.message else f"{problem.path}: {message}"


def _group(findings: list[Finding]) -> list[str]:
    """A folded list. Each line starts with a dash, so that no path or message can pass for a command."""
    plain = Style(False)
    title = f"{count(len(findings), 'more finding')} (GitHub shows {SHOWN_PER_LEVEL} annotations per level in a step)"
    listed = [f"- {concise.line(finding, plain)}".replace("##[", "## [") for finding in findings]
    return [f"::group::{title}", *listed, "::endgroup::"]


def _command(name: str, properties: dict[str, str], message: str) -> str:
    listed = ",".join(f"{key}={_escape_property(value)}" for key, value in properties.items())
    return f"::{name} {listed}::{_escape(message)}"


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")
