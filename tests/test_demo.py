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


def linted(folder: Path, *selected: str) -> subprocess.CompletedProcess[str]:
    """What dllint says of a folder, the rules in preview included unless other ones are selected."""
    options = ["--no-cache", "--output-format", "json", *(selected or ["--extend-select", "PREVIEW"])]
    command = [sys.executable, "-m", "dllint", *options, str(folder.relative_to(ROOT))]
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
    """Those in preview, too. The engine's own (DL00…) are about files that cannot be read, and comments."""
    rules = [rule for rule in load_rules() if not rule.code.startswith("DL00")]
    on = {rule.code for rule in rules if rule.default or rule.preview}
    assert on - {code for _, code in planted()} == set(), "plant one in fixtures/demo, and mend it in demo_mended"


def test_planted_bugs_are_found(found: set[tuple[str, str]]) -> None:
    known = {rule.code for rule in load_rules()}
    assert {(where, code) for where, code in planted() if code in known} - found == set()


def test_nothing_else_is_found(found: set[tuple[str, str]]) -> None:
    assert found - planted() == set()


def test_rules_in_preview_are_silent_by_default(found: set[tuple[str, str]]) -> None:
    preview = {rule.code for rule in load_rules() if rule.preview}
    findings = json.loads(linted(DEMO, "--ignore", "PREVIEW").stdout)
    by_default = {(place(finding), finding["code"]) for finding in findings}
    assert by_default == {(where, code) for where, code in found if code not in preview}
    findings = json.loads(linted(DEMO, "--color", "never").stdout)
    assert {(place(finding), finding["code"]) for finding in findings} == by_default


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
