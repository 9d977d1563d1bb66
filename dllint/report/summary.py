"""The line that closes a report for people: how much was found, where, and what can be mended."""

from __future__ import annotations

from dllint.findings import Finding, Report
from dllint.report.text import count


def severity_counts(report: Report) -> str:
    """``3 errors, 2 warnings``, worst first; empty when nothing was found."""
    numbers = {"error": 0, "warning": 0, "info": 0}
    for finding in report.findings:
        numbers[finding.severity] += 1
    words = {"error": "error", "warning": "warning", "info": "note"}
    return ", ".join(count(number, words[severity]) for severity, number in numbers.items() if number)


def summary_line(report: Report) -> str:
    """One sentence on the run, without a full stop."""
    hints = [*_fix_hints(report.findings), *_hidden(report)]
    tail = f" ({', '.join(hints)})" if hints else ""
    if report.notes:
        tail += f"; {count(len(report.notes), 'note')} (--notes shows {'it' if len(report.notes) == 1 else 'them'})"
    if report.problems:
        tail += f"; {count(len(report.problems), 'problem')} kept dllint from checking everything"
    if not report.findings:
        if report.files:
            return f"Found nothing in {count(report.files, 'file')}{tail}"
        return f"No files to check{tail}"
    return f"Found {severity_counts(report)} in {_files(report)}{tail}"


def _files(report: Report) -> str:
    hit = len({place.path for finding in report.findings for place in (finding.location, *finding.others)})
    return count(hit, "file") if hit >= report.files else f"{hit} of {count(report.files, 'file')}"


def _fix_hints(findings: list[Finding]) -> list[str]:
    safe = unsafe = 0
    for finding in findings:
        offered = {fix.safety for fix in finding.fixes}
        if "safe" in offered:
            safe += 1
        elif "unsafe" in offered:
            unsafe += 1
    hints = []
    if safe:
        hints.append(f"{safe} fixable with --fix")
    if unsafe:
        hints.append(f"{unsafe} {'more ' if safe else 'fixable '}with --fix --unsafe-fixes")
    return hints


def _hidden(report: Report) -> list[str]:
    hidden = ((report.suppressed, "suppressed"), (report.baselined, "in the baseline"))
    return [f"{number} {where}" for number, where in hidden if number]
