"""Ranks that do other things together than the others, as their records tell."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from confirm_support import SCRIPTS, observed

from dllint.confirm.comparing import compare_ranks
from dllint.confirm.evidence import Judgement, Record
from dllint.confirm.verdicts import settle


def rank(number: int, *operations: str, stop: str = "end", steps: int = 8) -> Record:
    return Record(1, number, "observe", "2.13", "cpu", stop, steps=steps, collectives=list(operations))


def compared(*records: Record) -> list[Judgement]:
    return [judgement for judgement in compare_ranks(records) if judgement.rule == "collectives-in-step"]


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        (rank(0, "barrier", "all_to_all"), rank(1, "barrier", "all_to_all"), "REFUTED"),
        (rank(0, "barrier", "all_to_all"), rank(1, "barrier", "barrier"), "CONFIRMED"),
        (rank(0, "all_reduce of [3]"), rank(1, "all_reduce of [4]"), "CONFIRMED"),
        (rank(0, "barrier", "all_to_all", stop="time"), rank(1, "barrier"), "CONFIRMED"),  # waits for what is gone
        (rank(0, "barrier", "all_to_all", stop="time"), rank(1, "barrier", stop="time"), "REFUTED"),  # was faster
        (rank(0, "barrier", "all_to_all", steps=5), rank(1, "barrier"), "CONFIRMED"),  # failed as the other went on
        (rank(0, "barrier", "barrier"), rank(1, "barrier"), "REFUTED"),  # and neither waits
    ],
)
def test_operations_of_two_ranks(first: Record, second: Record, verdict: str) -> None:
    (judgement,) = compared(first, second)
    assert judgement.verdict == verdict


def test_the_message_says_what_each_rank_does() -> None:
    (judgement,) = compared(rank(0, "barrier", "all_to_all", stop="time"), rank(1, "barrier"))
    assert judgement.message == "operation 1 of the ranks together is all_to_all on rank 0 and nothing on rank 1"


def test_one_rank_says_nothing() -> None:
    assert compared(rank(0, "barrier")) == compared(rank(0), rank(1)) == []


@pytest.mark.slow
def test_ranks_that_take_the_same_samples(tmp_path: Path) -> None:
    records = observed(SCRIPTS / "ranks.py", str(tmp_path / "store"), "shared").records
    (alarm,) = settle([], records).alarms
    assert alarm.rule == "DL805"
    assert "2 ranks take the same samples from TensorDataset[64]" in alarm.message
    assert [record.collectives for record in records] == [["all_reduce of [3]"]] * 2


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.parametrize(("how", "steps", "stop"), [("fork", 0, "end"), ("by-hand", 0, "end"), ("fork", 5, "budget")])
def test_ranks_that_the_script_forks_report(tmp_path: Path, how: str, steps: int, stop: str) -> None:
    records = observed(SCRIPTS / "ranks.py", str(tmp_path / "store"), how, steps=steps).records
    assert [(each.rank, each.steps, each.stop, each.errors) for each in records] == [
        (rank, steps or 8, stop, []) for rank in (0, 1)
    ]
    assert settle([], records).alarms == []
    assert [item.verdict for item in records[0].judgements if item.rule == "DL202"] == ["REFUTED"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.parametrize(("how", "verdict"), [("wrong", "CONFIRMED"), ("right", "REFUTED")])
def test_what_ranks_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, verdict: str) -> None:
    monkeypatch.chdir(tmp_path)
    script = SCRIPTS / "ranks_apart.py"
    records = observed(script, str(tmp_path / "store"), how).records
    assert [(each.rank, each.errors, each.error) for each in records] == [(0, [], ""), (1, [], "")]
    found = {item.rule: item for item in compare_ranks(records)}
    assert [found[rule].verdict for rule in ("DL405", "DL705", "ranks-share-randomness")] == [verdict] * 3
    found["DL516"] = next(item for item in records[0].judgements if item.rule == "DL516")
    assert found["DL516"].verdict == verdict
    lines = script.read_text().splitlines()
    for rule in ("DL516", "DL705"):
        assert lines[found[rule].stacks[0][0].line - 1].endswith(f"# {rule}")
    assert {item.rule for item in settle([], records).alarms} == ({"DL705"} if how == "wrong" else set())
