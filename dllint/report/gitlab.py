"""``gitlab``: the Code Quality report that GitLab shows in merge requests."""

from __future__ import annotations

import hashlib
import json

from dllint.findings import Finding, Report
from dllint.report.context import Context
from dllint.report.record import fingerprinted
from dllint.report.text import doubts, more_like_this, one_line

_SEVERITIES = {"error": "major", "warning": "minor", "info": "info"}


def render(report: Report, context: Context) -> str:
    """An array of issues, in the subset of the Code Climate format that GitLab documents."""
    issues = [_issue(finding, mark, context) for finding, mark in fingerprinted(report, notes=False)]
    return json.dumps(issues, indent=2) + "\n"


def _issue(finding: Finding, fingerprint: str, context: Context) -> dict[str, object]:
    path = context.relative(finding.location.path)
    line, _ = context.sources.file_lines(finding.location)
    place = finding.location
    cell = "" if place.cell is None else f" (cell {place.cell}, line {place.line})"
    return {
        "description": f"{finding.code} {finding.name}: {one_line(finding.message)}{cell}{_remarks(finding)}",
        "check_name": finding.name,
        "fingerprint": _unique(path, fingerprint),
        "severity": _SEVERITIES[finding.severity],
        "location": {"path": path, "lines": {"begin": line}},
    }


def _remarks(finding: Finding) -> str:
    """What a finding assumes, and where else the same thing is."""
    remarks = [remark for remark in (doubts(finding), more_like_this(finding)) if remark]
    return f" ({'; '.join(remarks)})" if remarks else ""


def _unique(path: str, fingerprint: str) -> str:
    """GitLab drops an issue whose fingerprint it has seen, and ours is the same in copies of a file."""
    return hashlib.sha256(f"{path}\0{fingerprint}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
