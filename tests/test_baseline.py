"""The baseline file: what it takes in, what it lets go, and that moved code leaves it alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dllint.baseline import Baseline, BaselineError
from dllint.findings import Finding, Location


def finding(path: str = "train.py", code: str = "DL101", statement: str = "loss = f(x)", line: int = 1) -> Finding:
    place = Location(path, line, 1, line, 5)
    return Finding(code, "name", "wrong", place, "error", "correctness", statement=statement)


@pytest.fixture
def baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Baseline:
    monkeypatch.chdir(tmp_path)
    for name in ("train.py", "model.py"):
        (tmp_path / name).touch()
    return Baseline(tmp_path / ".dllint_baseline.json")


ALL = {"train.py": {"DL101", "DL202"}, "model.py": {"DL101", "DL202"}}


def test_known_findings_are_told_from_new_ones_after_lines_have_moved(baseline: Baseline) -> None:
    known = baseline.updated([finding(), finding("model.py")], ALL)
    new = finding(statement="loss = g(x)", line=9)
    left, matched = known.split([finding(line=50), new, finding("model.py", line=7)])
    assert left == [new]
    assert matched == known.entries
    assert known.stale(matched, ALL) == frozenset()


def test_a_second_equal_statement_is_new(baseline: Baseline) -> None:
    known = baseline.updated([finding()], ALL)
    second = finding(line=3)
    assert known.split([finding(), second])[0] == [second]


def test_entries_are_stale_when_the_finding_or_its_file_is_gone(baseline: Baseline) -> None:
    known = baseline.updated([finding(), finding("model.py"), finding(code="DL202"), finding("gone.py")], ALL)
    stale = known.stale((), {"train.py": {"DL101"}})
    assert {(path, code) for path, code, _ in stale} == {("train.py", "DL101"), ("gone.py", "DL101")}
    assert known.without(stale).entries == known.entries - stale


def test_update_touches_only_files_and_rules_of_the_run(baseline: Baseline) -> None:
    known = baseline.updated([finding(), finding("model.py"), finding(code="DL202")], ALL)
    updated = known.updated([finding(statement="other")], {"train.py": {"DL101"}})
    assert sorted((path, code) for path, code, _ in updated.entries) == [
        ("model.py", "DL101"),
        ("train.py", "DL101"),
        ("train.py", "DL202"),
    ]
    assert updated.entries != known.entries


def test_what_keeps_dllint_from_working_is_never_known(baseline: Baseline) -> None:
    broken = finding(code="DL001")
    known = baseline.updated([broken], ALL)
    assert known.entries == frozenset()
    assert known.split([broken])[0] == [broken]


def test_the_file_has_one_sorted_entry_to_a_line_and_comes_back(baseline: Baseline, tmp_path: Path) -> None:
    known = baseline.updated([finding("b/é.py"), finding("a.py"), finding("a.py", "DL001", line=2), finding()], ALL)
    known.write()
    text = known.path.read_text(encoding="utf-8")
    lines = text.splitlines()
    assert len(lines) == len(known.entries) + 2
    assert [json.loads(line.rstrip(","))[0] for line in lines[1:-1]] == ["a.py", "b/é.py", "train.py"]
    assert str(tmp_path) not in text
    assert Baseline.read(known.path) == known
    assert sorted(path.name for path in tmp_path.iterdir()) == [".dllint_baseline.json", "model.py", "train.py"]


def test_an_empty_baseline_is_one(baseline: Baseline) -> None:
    baseline.write()
    assert Baseline.read(baseline.path) == baseline


def test_paths_are_relative_to_the_file_wherever_dllint_is_run(
    baseline: Baseline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = baseline.updated([finding("src/train.py")], ALL)
    (tmp_path / "src").mkdir()
    monkeypatch.chdir(tmp_path / "src")
    assert known.split([finding("train.py")])[0] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not a baseline"),
        ("[]", "not a baseline"),
        ('{"version": 1, "findings": [["a"]]}', "not a baseline"),
        ('{"version": 99, "findings": []}', "another version"),
        (None, "No such file"),
    ],
)
def test_a_file_that_is_no_baseline(baseline: Baseline, text: str | None, message: str) -> None:
    if text is not None:
        baseline.path.write_text(text)
    with pytest.raises(BaselineError, match=message):
        Baseline.read(baseline.path)


def test_a_baseline_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(BaselineError, match="No such file"):
        Baseline(tmp_path / "nowhere" / "b.json").write()
