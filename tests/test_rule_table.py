"""What is known of rules without importing them: the same as when they are imported, or nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from installing import MODEL, ROOT, TRAINING

from dllint.registry import builtin_directory, rule_files
from dllint.rule_files import load_file
from dllint.rule_table import ListedRule, RuleTable, listens, loaded

COUNT = """\
import sys
from dllint.cli import main
main(["--output-format", "concise"])
rules = {name for name in sys.modules if name.startswith("dllint_rules.")}
print(len(rules), "dllint.interp.run.entry" in sys.modules)
"""


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RuleTable:
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return RuleTable(builtin_directory(), "now")


def test_it_says_what_the_rules_say(table: RuleTable) -> None:
    rules = [(path, rule) for path in rule_files(builtin_directory()) for rule in load_file(path)]
    assert table.read() is None
    table.write(rules)
    kept = table.read()
    assert kept is not None and len(kept) == len(rules)
    for each, (path, rule) in zip(kept, rules, strict=True):
        assert isinstance(each, ListedRule) and each.source.file == path
        for name in ("code", "name", "category", "default", "preview", "triggers", "of_files"):
            assert getattr(each, name) == getattr(rule, name)
        assert listens(each) == listens(rule)
        assert each.listens
    assert loaded(kept[0]).__name__ == rules[0][1].__name__ and loaded(kept[0]) is loaded(kept[0])


def test_one_of_another_time_or_that_is_damaged_is_not_used(table: RuleTable, tmp_path: Path) -> None:
    path = rule_files(builtin_directory())[0]
    table.write([(path, rule) for rule in load_file(path)])
    assert RuleTable(builtin_directory(), "later").read() is None
    [file] = tmp_path.rglob("*.json")
    kept = json.loads(file.read_text())
    for damaged in ("", "[]", "{}", json.dumps({**kept, "rules": [["a.py", "DL101"]]})):
        file.write_text(damaged)
        assert table.read() is None


def test_nothing_is_written_where_python_writes_no_byte_code(
    table: RuleTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    table.write([])
    assert not list(tmp_path.rglob("*"))


@pytest.mark.slow
def test_a_run_imports_the_rules_that_may_fire_and_no_other(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "model.py").write_text(MODEL)
    (project / "train.py").write_text(TRAINING)
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = {**kept, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": str(tmp_path / "bytecode")}

    def run() -> tuple[int, bool]:
        command = [sys.executable, "-c", COUNT]
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=True)
        assert "DL101" in done.stdout
        number, interpreted = done.stdout.splitlines()[-1].split()
        return int(number), interpreted == "True"

    every = len(rule_files(builtin_directory()))
    assert run() == (every, True)  # which makes the table
    assert run() == (0, False)
    (project / "train.py").write_text(TRAINING + "\n")
    number, interpreted = run()
    assert interpreted and 0 < number < every
