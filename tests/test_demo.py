"""The small project in ``fixtures/demo``: its planted bugs are found, and nothing else; its mended twin is clean."""

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
MENDED = ROOT / "fixtures" / "demo_mended"


def planted() -> set[tuple[str, str]]:
    """The place and the code of each planted bug."""
    lines = (DEMO / "expected.txt").read_text("utf-8").splitlines()
    return {(place, code) for place, _, code in (line.rpartition(" ") for line in lines)}


def linted(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "dllint", "--no-cache", "--output-format", "json", str(folder.relative_to(ROOT))]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def found() -> set[tuple[str, str]]:
    done = linted(DEMO)
    assert done.returncode == 1
    return {(place(finding), finding["code"]) for finding in json.loads(done.stdout)}


def place(finding: dict[str, Any]) -> str:
    """Where a finding is, as ``expected.txt`` says it."""
    cell = f"cell {finding['cell']}:" if finding["cell"] else ""
    return f"{Path(finding['path']).name}:{cell}{finding['line']}"


def test_every_rule_that_is_on_has_a_bug() -> None:
    """The engine's own (DL00…) are about files that cannot be read, and about comments."""
    on = {rule.code for rule in load_rules() if rule.default and not rule.code.startswith("DL00")}
    assert on - {code for _, code in planted()} == set(), "plant one in fixtures/demo, and mend it in demo_mended"


def test_planted_bugs_are_found(found: set[tuple[str, str]]) -> None:
    known = {rule.code for rule in load_rules()}
    assert {(where, code) for where, code in planted() if code in known} - found == set()


def test_nothing_else_is_found(found: set[tuple[str, str]]) -> None:
    assert found - planted() == set()


def test_nothing_is_found_where_all_is_mended() -> None:
    done = linted(MENDED)
    assert [(place(finding), finding["code"]) for finding in json.loads(done.stdout)] == []
    assert done.returncode == 0


def test_the_mended_twin_has_the_same_files() -> None:
    """Each file with a planted bug differs from its twin; nothing was mended by leaving a file out."""
    names = {path.name for path in DEMO.iterdir() if path.is_file()} - {"expected.txt"}
    assert names == {path.name for path in MENDED.iterdir() if path.is_file()}
    with_bugs = {where.partition(":")[0] for where, _ in planted()}
    assert {name for name in names if (DEMO / name).read_bytes() != (MENDED / name).read_bytes()} == with_bugs
