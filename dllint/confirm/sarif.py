"""The verdicts of a run as SARIF 2.1.0, for what shows the findings of the linter as well."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dllint.confirm.evidence import Judgement
from dllint.confirm.launch import Outcome
from dllint.confirm.record import plain
from dllint.confirm.verdicts import Verdicts, promoted
from dllint.findings import Finding, Location, Report
from dllint.report import render
from dllint.rule import Rule

Entry = tuple[Finding, str, Judgement | None, str]


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
    place = Location(_script(outcome.command), 1, 1, 1, 1)
    entries: list[Entry] = [
        (promoted(item) if item.answer == "CONFIRMED" else item.finding, item.answer, item.judgement, item.premise)
        for item in verdicts.settled
    ]
    checks = [shown for shown in verdicts.experiments if shown.voice == "alarm"]
    for shown in [*verdicts.alarms, *checks, *verdicts.notes]:
        verdict = str(shown.verdict) if shown in checks else "ALARM" if shown.voice == "alarm" else "NOTE"
        entries.append((_finding(shown, names, place), verdict, shown, ""))
    report = Report(findings=[entry[0] for entry in entries], files=len({e[0].location.path for e in entries}))
    log = json.loads(render(report, "sarif", root=root, rules=rules))
    for result, (_, answer, judgement, premise) in zip(log["runs"][0]["results"], entries, strict=True):
        result["properties"] |= {"verdict": answer, **_evidence(judgement)}
        if premise:
            result["properties"]["premise"] = premise
        if answer == "REFUTED":
            result |= {"kind": "pass", "level": "none"}
    return json.dumps(log, indent=2) + "\n"


def _evidence(judgement: Judgement | None) -> dict[str, Any]:
    if judgement is None:
        return {}
    numbers: dict[str, Any] = plain(judgement.statistics)
    return {"evidence": judgement.message, "threshold": judgement.threshold, "statistics": numbers}


def _finding(judgement: Judgement, names: dict[str, str], place: Location) -> Finding:
    """What the run shows, as if it had been found at its line."""
    frame = judgement.frame
    if frame is not None:
        place = replace(place, path=os.path.relpath(frame.path), line=frame.line, end_line=frame.line)
    is_alarm = judgement.voice == "alarm" and judgement.verdict == "CONFIRMED"
    return Finding(
        judgement.rule,
        names.get(judgement.rule, judgement.rule),
        judgement.message,
        place,
        "error" if is_alarm else "info",
        "correctness",
        confirmable=True,
    )


def _script(command: Sequence[str]) -> str:
    """The script that was run, as far as the command tells."""
    scripts = [word for word in command if word.endswith(".py") and Path(word).is_file()]
    return scripts[0] if scripts else "."
