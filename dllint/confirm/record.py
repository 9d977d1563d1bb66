"""The evidence of a run as JSON, for other programs."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from dllint.confirm.evidence import SCHEMA, Record
from dllint.confirm.launch import Outcome
from dllint.confirm.verdicts import Settled, Verdicts


def as_json(verdicts: Verdicts, outcome: Outcome) -> str:
    """The verdicts, and the record of each process, as a JSON document."""
    document = {
        "schema": SCHEMA,
        "command": outcome.command,
        "exit_code": outcome.exit_code,
        "verdicts": [_settled(item) for item in verdicts.settled],
        "questions": [_settled(item) for item in verdicts.questions],
        "alarms": list(map(asdict, verdicts.alarms)),
        "notes": list(map(asdict, verdicts.notes)),
        "experiments": list(map(asdict, verdicts.experiments)),
        "runs": [_run(record) for record in outcome.records],
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
    finding = item.finding
    about: dict[str, Any] = {"rule": finding.code, "name": finding.name, "verdict": item.answer}
    place = {"path": finding.location.path, "line": finding.location.line, "cell": finding.location.cell}
    evidence = asdict(item.judgement) if item.judgement is not None else None
    assumptions = [{"kind": each.kind, "text": each.text} for each in finding.assumptions]
    answers = [{"about": each.assumption.text, "answer": each.answer, "why": each.why} for each in item.answers]
    about |= {"confidence": finding.confidence, "assumptions": assumptions, "premise": item.premise}
    about["answers"] = answers
    return {**about, **place, "reason": item.reason if item.answer not in ("CONFIRMED", "REFUTED") else "",
            "evidence": evidence}  # fmt: skip


def _run(record: Record) -> dict[str, Any]:
    known = asdict(record)
    del known["told"], known["seen"]  # which are no evidence
    return known
