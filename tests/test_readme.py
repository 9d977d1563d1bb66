"""The README tells the truth: its picture is of a real run, and its table holds all rules."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dllint.registry import load_rules

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def script(name: str) -> Any:
    """A script of the documentation, as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_picture_is_that_of_a_real_run() -> None:
    picture = script("picture")
    text = picture.printed()
    assert "DL101" in text and "it comes about" in text
    assert picture.PICTURE.read_text("utf-8") == picture.drawn(text), "run `python docs/picture.py --write`"
    assert f"({picture.PICTURE.relative_to(ROOT).as_posix()})" in README


def test_pages_that_the_code_writes_are_current() -> None:
    for path, text in script("reference").written().items():
        assert path.read_text("utf-8") == text, "run `python docs/reference.py --write`"


def test_table_of_the_rules_comes_last() -> None:
    table = README.partition("<!-- rules -->\n")[2]
    rows = [line for line in table.splitlines() if line.startswith("| DL")]
    assert len(rows) == len(load_rules())
    assert all(line.startswith("|") for line in table.strip().splitlines())


def test_the_quick_start_takes_five_lines() -> None:
    start = README.partition("## Quick start")[2].partition("\n## ")[0]
    lines = re.findall(r"```bash\n(.*?)```", start, re.DOTALL)[1].strip().splitlines()
    assert len(lines) == 5 and all(line.startswith("dllint ") for line in lines)


@pytest.mark.parametrize("path", ["fixtures/demo"])
def test_the_first_command_ends_with_what_to_do_next(path: str, tmp_path: Path) -> None:
    command = re.search(r"<!-- command: demo -->\n```bash\n(.*?)\n```", README)
    assert command is not None and command[1].endswith(f".venv/bin/dllint {path}")
    shutil.copytree(ROOT / path, tmp_path / path)
    done = subprocess.run(
        [sys.executable, "-m", "dllint", path],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    found = re.search(r"next: `dllint rule (DL\d+)` says what the first finding costs", done.stdout.splitlines()[-1])
    assert found is not None and f"[{found[1]}]" in done.stdout


def test_the_comparison_counts_the_planted_bugs() -> None:
    planted = len(
        (ROOT / "fixtures" / "demo" / "expected.txt").read_text("utf-8").splitlines()
    )  # all of which are found
    for text in (README, (ROOT / "docs" / "compare.md").read_text("utf-8")):
        assert f"| of the {planted} bugs planted in `fixtures/demo` | {planted} |" in text, (
            "compare the others again, too"
        )


def test_there_are_no_placeholders() -> None:
    """What stands for an owner, an address or a task that is still to be filled in is not for readers."""
    for path in (ROOT / "pyproject.toml", *ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")):
        assert not re.search(r"OWNER|example\.(com|org)|TODO|YOUR[-_ ]", path.read_text("utf-8")), path.name


def test_no_test_is_left_out_by_both_the_command_and_continuous_integration() -> None:
    command = README.partition("<!-- command: test -->\n")[2].split("\n")[1]
    assert command.endswith('-m pytest -n auto -m "not slow"')
    run = (ROOT / ".ci" / "run").read_text("utf-8")
    assert re.search(r'^check "slow tests" python -m pytest -n auto -m slow\b', run, re.MULTILINE)


def test_documents_that_are_linked_exist() -> None:
    linked = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert linked
    assert [name for name in linked if not (ROOT / name).exists() and name != "docs/performance.md"] == []
