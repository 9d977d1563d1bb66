"""The small project in ``fixtures/demo``: its planted bugs are found, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dllint.registry import load_rules

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "fixtures" / "demo"


def planted() -> set[tuple[str, str]]:
    """The place and the code of each planted bug."""
    lines = (DEMO / "expected.txt").read_text("utf-8").splitlines()
    return {(place, code) for place, _, code in (line.rpartition(" ") for line in lines)}


@pytest.fixture(scope="module")
def found() -> set[tuple[str, str]]:
    command = [sys.executable, "-m", "dllint", "--no-cache", "--output-format", "json", "fixtures/demo"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 1
    return {(place(finding), finding["code"]) for finding in json.loads(done.stdout)}


def place(finding: dict[str, Any]) -> str:
    """Where a finding is, as ``expected.txt`` says it."""
    cell = f"cell {finding['cell']}:" if finding["cell"] else ""
    return f"{Path(finding['path']).name}:{cell}{finding['line']}"


def test_every_family_has_a_bug() -> None:
    assert {code[2] for _, code in planted()} == set("123456789")


def test_planted_bugs_are_found(found: set[tuple[str, str]]) -> None:
    known = {rule.code for rule in load_rules()}
    assert {(where, code) for where, code in planted() if code in known} - found == set()


def test_nothing_else_is_found(found: set[tuple[str, str]]) -> None:
    assert found - planted() == set()
