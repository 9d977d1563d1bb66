"""The README tells the truth: its output is dllint's own, and its table holds all rules."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

from dllint.registry import load_rules

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")


def test_output_is_that_of_the_command() -> None:
    found = re.search(r"<!-- output: dllint (.*?) -->\n```text\n(.*?)\n```", README, re.DOTALL)
    assert found is not None
    command, shown = found[1].split(), found[2]
    printed = subprocess.run(
        [sys.executable, "-m", "dllint", *command, "--isolated", "--no-cache", "--output-format", "full"],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert printed.returncode == 1, printed.stderr
    assert printed.stdout.split("\n\nFound")[0] == shown


def test_table_of_the_rules() -> None:
    rows = []
    for rule in sorted(load_rules(), key=lambda rule: rule.code):
        summary = textwrap.dedent(rule.__doc__ or "").strip().split("\n")[0].rstrip(".")
        rows.append(f"| {rule.code} | `{rule.name}` | {summary} |")
    table = README.partition("<!-- rules -->\n")[2].partition("\n\n")[0]
    assert table.split("\n")[2:] == rows


def test_no_test_is_left_out_by_both_the_command_and_continuous_integration() -> None:
    command = README.partition("<!-- command: test -->\n")[2].split("\n")[1]
    assert command.endswith('-m pytest -n auto -m "not slow"')
    run = (ROOT / ".ci" / "run").read_text("utf-8")
    assert re.search(r'^check "slow tests" python -m pytest -n auto -m slow\b', run, re.MULTILINE)


def test_documents_that_are_linked_exist() -> None:
    linked = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    assert linked
    assert [name for name in linked if not (ROOT / name).exists() and name != "docs/performance.md"] == []
