"""The verdicts of a run as documents for other programs: as JSON with all of the evidence, and as SARIF 2.1.0 for what
shows the findings of the linter as well."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dllint.confirm.evidence import SCHEMA, Judgement
from dllint.confirm.launch import Outcome
from dllint.confirm.verdicts import Settled, Verdicts, promoted
from dllint.findings import Finding, Location, Report, Severity
from dllint.report import render
from dllint.rule import Rule

Entry = tuple[Finding, str, Judgement | None, str]


def as_json(verdicts: Verdicts, outcome: Outcome) -> str:
    """The verdicts, and the record of each process, as a JSON document."""
    runs = [asdict(record) for record in outcome.records]
    for run in runs:
        del run["told"], run["seen"]  # which are no evidence
    document = {
        "schema": SCHEMA,
        "command": outcome.command,
        "exit_code": outcome.exit_code,
        "verdicts": [_settled(item) for item in verdicts.settled],
        "questions": [_settled(item) for item in verdicts.questions],
        "alarms": list(map(asdict, verdicts.alarms)),
        "notes": list(map(asdict, verdicts.notes)),
        "experiments": list(map(asdict, verdicts.experiments)),
        "runs": runs,
    }
    return json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def plain(value: Any) -> Any:
    """The value with null for numbers that JSON has no words for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def _settled(item: Settled) -> dict[str, Any]:
    finding, place = item.finding, item.finding.location
    return {
        "rule": finding.code,
        "name": finding.name,
        "verdict": item.answer,
        "confidence": finding.confidence,
        "assumptions": [{"kind": each.kind, "text": each.text} for each in finding.assumptions],
        "premise": item.premise,
        "answers": [{"about": each.assumption.text, "answer": each.answer, "why": each.why} for each in item.answers],
        "path": place.path,
        "line": place.line,
        "cell": place.cell,
        "reason": item.reason if item.answer not in ("CONFIRMED", "REFUTED") else "",
        "evidence": asdict(item.judgement) if item.judgement is not None else None,
    }


def as_sarif(verdicts: Verdicts, outcome: Outcome, rules: Sequence[type[Rule]], root: Path) -> str:
    """The findings with their verdicts, and what the run shows beyond them.

    A finding that is refuted is a result that passes; any other keeps its level. The verdict and the numbers are
    among the properties of each result.

    Args:
        verdicts: what the run has shown.
        outcome: the run; what has no place in the code is put at the beginning of its script.
        rules: the rules that took part.
        root: the folder that paths are relative to.
    """
    names = {rule.code: rule.name for rule in rules}
    scripts = (word for word in outcome.command if word.endswith(".py") and Path(word).is_file())
    place = Location(next(scripts, "."), 1, 1, 1, 1)
    entries: list[Entry] = [(promoted(item), item.answer, item.judgement, item.premise) for item in verdicts.settled]
    checks = [shown for shown in verdicts.experiments if shown.voice == "alarm"]
    for shown in [*verdicts.alarms, *checks, *verdicts.notes]:
        verdict = str(shown.verdict) if shown in checks else "ALARM" if shown.voice == "alarm" else "NOTE"
        entries.append((_finding(shown, names, place), verdict, shown, ""))
    report = Report(findings=[entry[0] for entry in entries], files=len({e[0].location.path for e in entries}))
    log = json.loads(render(report, "sarif", root=root, rules=rules))
    for result, (_, answer, judgement, premise) in zip(log["runs"][0]["results"], entries, strict=True):
        result["properties"]["verdict"] = answer
        if judgement is not None:
            said = {"evidence": judgement.message, "threshold": judgement.threshold}
            result["properties"] |= {**said, "statistics": plain(judgement.statistics)}
        if premise:
            result["properties"]["premise"] = premise
        if answer == "REFUTED":
            result |= {"kind": "pass", "level": "none"}
    return json.dumps(log, indent=2) + "\n"


def _finding(judgement: Judgement, names: dict[str, str], place: Location) -> Finding:
    """What the run shows, as if it had been found at its line."""
    frame = judgement.frame
    if frame is not None:
        place = replace(place, path=os.path.relpath(frame.path), line=frame.line, end_line=frame.line)
    name = names.get(judgement.rule, judgement.rule)
    severity: Severity = "error" if judgement.voice == "alarm" and judgement.verdict == "CONFIRMED" else "info"
    return Finding(judgement.rule, name, judgement.message, place, severity, "correctness", confirmable=True)
