"""``sarif``: SARIF 2.1.0, for GitHub code scanning, editors and whatever else reads the OASIS standard."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from dllint import __version__
from dllint.findings import Edit, Finding, Fix, Held, Location, Problem, Report, fingerprints
from dllint.report.context import Context
from dllint.report.record import fingerprinted
from dllint.report.text import explanation, one_line, sentence
from dllint.rule import Rule, address_of

FINGERPRINT_KEY = "dllintFingerprint/v1"
"""Our own key: the one that GitHub computes itself must be left to it."""

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_ROOT = "SRCROOT"
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_PROBLEM_SEVERITIES = {"error": "error", "warning": "warning", "info": "recommendation"}
_LONGEST_DESCRIPTION = 1000  # GitHub refuses more than 1,024 characters

Json = dict[str, Any]


def render(report: Report, context: Context) -> str:
    """A log of one run: every rule that took part, every finding, and the problems as notifications."""
    rules = _descriptors(report, context)
    index = {rule["id"]: number for number, rule in enumerate(rules)}
    driver = {"name": "dllint", "version": __version__, "semanticVersion": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "newlineSequences": ["\r\n", "\n", "\r"],
        "originalUriBaseIds": {_ROOT: {"uri": context.root.as_uri().rstrip("/") + "/"}},
        "invocations": [_invocation(report, context)],
        "results": [
            *(_result(finding, mark, index, context) for finding, mark in fingerprinted(report)),
            *(_suppressed(held, mark, index, context) for held, mark in _held(report)),
        ],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _descriptors(report: Report, context: Context) -> list[Json]:
    """The rules by code. A finding of a rule that was not passed describes it as well as it can."""
    known = {rule.code: _descriptor(rule) for rule in context.rules}
    for finding in (*report.findings, *report.notes, *(held.finding for held in report.held)):
        if finding.code not in known:
            known[finding.code] = _descriptor_of_finding(finding)
    return [known[code] for code in sorted(known)]


def _descriptor(rule: type[Rule]) -> Json:
    page = inspect.cleandoc(rule.__doc__ or rule.name)
    paragraphs = [" ".join(paragraph.split()) for paragraph in page.split("\n\n")]
    address = address_of(rule.code)
    opening = " ".join(paragraphs[:2]) if len(paragraphs) > 1 and not paragraphs[1].startswith("#") else paragraphs[0]
    return {
        "id": rule.code,
        "name": rule.name,
        "shortDescription": {"text": _shorten(paragraphs[0])},
        "fullDescription": {"text": _shorten(opening)},
        "help": {"text": page, "markdown": page},
        **({"helpUri": address} if address else {}),
        "defaultConfiguration": {"level": _LEVELS[rule.severity], "enabled": rule.default},
        "properties": {
            "tags": [rule.category, "deep-learning"],
            "precision": "high" if rule.default else "medium",
            "problem.severity": _PROBLEM_SEVERITIES[rule.severity],
        },
    }


def _descriptor_of_finding(finding: Finding) -> Json:
    return {
        "id": finding.code,
        "name": finding.name,
        "shortDescription": {"text": sentence(finding.name)},
        "fullDescription": {"text": sentence(finding.name)},
        "help": {"text": sentence(finding.help or finding.name)},
        **({"helpUri": finding.url} if finding.url else {}),
        "defaultConfiguration": {"level": _LEVELS[finding.severity]},
        "properties": {
            "tags": [finding.category, "deep-learning"],
            "problem.severity": _PROBLEM_SEVERITIES[finding.severity],
        },
    }


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_DESCRIPTION else text[: _LONGEST_DESCRIPTION - 1] + "…"


def _result(finding: Finding, fingerprint: str, index: dict[str, int], context: Context) -> Json:
    place = _place(finding.location, context)
    if finding.scope:
        place["logicalLocations"] = [{"fullyQualifiedName": finding.scope}]
    result: Json = {
        "ruleId": finding.code,
        "ruleIndex": index[finding.code],
        "level": _LEVELS[finding.severity],
        "message": {"text": " ".join(explanation(finding))},
        "locations": [place],
        "partialFingerprints": {FINGERPRINT_KEY: fingerprint},
        "properties": {"confidence": finding.confidence, "confirmable": finding.confirmable},
    }
    if finding.assumptions:
        result["properties"]["assumptions"] = [{"kind": each.kind, "text": each.text} for each in finding.assumptions]
    if finding.location.cell is not None:
        result["properties"] |= {"cell": finding.location.cell, "cellLine": finding.location.line}
    hops = [
        {**_place(hop.location, context), "message": {"text": sentence(one_line(hop.message))}} for hop in finding.trace
    ]
    if hops:
        result["codeFlows"] = [{"threadFlows": [{"locations": [{"location": hop} for hop in hops]}]}]
    others = [{**_place(other, context), "message": {"text": "More like this."}} for other in finding.others]
    if hops or others:
        result["relatedLocations"] = [{"id": number, **near} for number, near in enumerate([*hops, *others], start=1)]
    fixes = [found for fix in finding.fixes if (found := _fix(fix, finding.location.path, context))]
    if fixes:
        result["fixes"] = fixes
    return result


def _held(report: Report) -> Iterator[tuple[Held, str]]:
    """What is held back, each with the fingerprint it has among the others."""
    marks = dict(fingerprints(held.finding for held in report.held))
    return ((held, marks[held.finding]) for held in report.held)


def _suppressed(held: Held, fingerprint: str, index: dict[str, int], context: Context) -> Json:
    """The result of a finding that a comment or the baseline holds back."""
    suppression = {"kind": "inSource" if held.by == "comment" else "external", "status": "accepted"}
    if held.reason:
        suppression["justification"] = one_line(held.reason)
    return {**_result(held.finding, fingerprint, index, context), "suppressions": [suppression]}


def _place(location: Location, context: Context) -> Json:
    artifact, region = _artifact(location.path, context), _region(location, context)
    return {"physicalLocation": {"artifactLocation": artifact, "region": region}}


def _region(location: Location, context: Context) -> Json:
    """The range in the file. In a notebook that is whole lines of its JSON, where the cell's lines are."""
    if location.cell is not None:
        line, end_line = context.sources.file_lines(location)
        return {"startLine": line, "endLine": end_line}
    return {
        "startLine": location.line,
        "startColumn": location.column,
        "endLine": location.end_line,
        "endColumn": location.end_column,
    }


def _artifact(path: str, context: Context) -> Json:
    relative = context.relative(path)
    if Path(relative).is_absolute():
        return {"uri": Path(relative).as_uri()}
    return {"uri": quote(os.fsencode(relative)), "uriBaseId": _ROOT}


def _fix(fix: Fix, path: str, context: Context) -> Json | None:
    """The fix, or nothing for a notebook (its edits are about cells, not about the JSON) or an unreadable file."""
    replacements = [_replacement(edit, path, context) for edit in fix.edits]
    if not replacements or None in replacements:
        return None
    change = {"artifactLocation": _artifact(path, context), "replacements": replacements}
    return {
        "description": {"text": f"{sentence(one_line(fix.message))[:-1]} ({fix.safety})"},
        "artifactChanges": [change],
    }


def _replacement(edit: Edit, path: str, context: Context) -> Json | None:
    place = context.sources.place(path, edit.start, edit.end)
    if place is None or place.cell is not None:
        return None
    return {"deletedRegion": _region(place, context), "insertedContent": {"text": edit.text}}


def _invocation(report: Report, context: Context) -> Json:
    notes: dict[str, list[Json]] = {"toolConfigurationNotifications": [], "toolExecutionNotifications": []}
    for problem in report.problems:
        about = "Configuration" if problem.kind == "config" else "Execution"
        notes[f"tool{about}Notifications"].append(_notification(problem, context))
    return {"executionSuccessful": not report.problems, **{key: value for key, value in notes.items() if value}}


def _notification(problem: Problem, context: Context) -> Json:
    note: Json = {"level": "error", "message": {"text": sentence(problem.message)}, "descriptor": {"id": problem.kind}}
    if problem.path:
        note["locations"] = [{"physicalLocation": {"artifactLocation": _artifact(problem.path, context)}}]
    return note
