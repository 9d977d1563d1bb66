"""Runs scripts under probes, and reads what their comments expect."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dllint.confirm.evidence import Judgement, Settings
from dllint.confirm.launch import Outcome, run

SCRIPTS = Path(__file__).parent / "scripts"
os.environ.setdefault("OMP_NUM_THREADS", "1")  # many scripts run at once, with tensors too small for more threads
_EXPECTATION = re.compile(r"# (NOT CONFIRMED|CONFIRMED|REFUTED) ([\w-]+(?:, [\w-]+)*)$")


def observed(script: Path | str, *arguments: str, steps: int = 0, epoch_batches: int = 0, **more: Any) -> Outcome:
    """Run a script under probes, to its end unless bounds are given."""
    settings = Settings("", steps=steps, epoch_batches=epoch_batches, **more)
    return run([sys.executable, str(script), *arguments], settings, in_place=False, show_output=True)


def expectations(script: Path) -> Iterator[tuple[int, str, str]]:
    """The line, rule and verdict of each expectation in the comments of a script."""
    for number, line in enumerate(script.read_text().splitlines(), start=1):
        if match := _EXPECTATION.search(line):
            for rule in match[2].split(", "):
                yield number, rule, match[1]


def judgements_at(outcome: Outcome, script: Path, line: int, rule: str) -> list[Judgement]:
    """What probes say about a rule at a line."""
    return [
        judgement
        for record in outcome.records
        for judgement in record.judgements
        if judgement.rule == rule
        and any(frame.line == line and Path(frame.path) == script for stack in judgement.stacks for frame in stack)
    ]
