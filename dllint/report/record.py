"""A finding as plain data, the shape that ``json`` and ``jsonl`` share and other programs rely on."""

from __future__ import annotations

from dllint.findings import Edit, Finding, Fix, Location, Problem, Report, fingerprints, sort_key
from dllint.report.sources import SourceCache

Record = dict[str, object]


def records(report: Report, sources: SourceCache) -> list[Record]:
    """One record for each finding, notes included, in the order of the report, and one for each unreadable file.

    The ``code`` of the latter is null, and their ``name`` is ``unreadable``.
    """
    found = [_record(finding, mark, sources) for finding, mark in fingerprinted(report)]
    return [*found, *(_unreadable(problem) for problem in report.problems if problem.kind == "unreadable")]


def fingerprinted(report: Report, *, notes: bool = True) -> list[tuple[Finding, str]]:
    """The findings in the order of the report, with or without those that are only notes, each with its fingerprint."""
    every = sorted([*report.findings, *report.notes], key=sort_key) if report.notes else report.findings
    marks = report.fingerprints or dict(fingerprints(every))
    shown = every if notes else report.findings
    return [(finding, marks[finding]) for finding in shown]


def _record(finding: Finding, fingerprint: str, sources: SourceCache) -> Record:
    return {
        "code": finding.code,
        "name": finding.name,
        "message": finding.message,
        "effect": finding.effect,
        "help": finding.help,
        "severity": finding.severity,
        "category": finding.category,
        "confidence": finding.confidence,
        "assumptions": [{"kind": each.kind, "text": each.text} for each in finding.assumptions],
        **_location(finding.location),
        "scope": finding.scope,
        "fingerprint": fingerprint,
        "trace": [{**_location(hop.location), "message": hop.message} for hop in finding.trace],
        "others": [_location(location) for location in finding.others],
        "fixes": [_fix(fix, finding.location.path, sources) for fix in finding.fixes],
        "confirmable": finding.confirmable,
        "url": finding.url,
    }


def _unreadable(problem: Problem) -> Record:
    nothing = Finding("", problem.kind, problem.message, Location(problem.path, 1, 1, 1, 1), "error", "correctness")
    nowhere = dict.fromkeys(("code", "line", "column", "end_line", "end_column", "fingerprint"))
    return {**_record(nothing, "", SourceCache(None)), **nowhere}


def _location(location: Location) -> Record:
    return {
        "path": location.path,
        "line": location.line,
        "column": location.column,
        "end_line": location.end_line,
        "end_column": location.end_column,
        "cell": location.cell,
    }


def _fix(fix: Fix, path: str, sources: SourceCache) -> Record:
    edits = [_edit(edit, path, sources) for edit in fix.edits]
    return {"message": fix.message, "safety": fix.safety, "edits": edits}


def _edit(edit: Edit, path: str, sources: SourceCache) -> Record:
    """Offsets as the fix has them, and lines and columns (null when the file cannot be read)."""
    place = sources.place(path, edit.start, edit.end)
    return {
        "start": edit.start,
        "end": edit.end,
        "text": edit.text,
        "start_line": place and place.line,
        "start_column": place and place.column,
        "end_line": place and place.end_line,
        "end_column": place and place.end_column,
        "cell": place and place.cell,
    }
