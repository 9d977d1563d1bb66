"""A command that is run twice: does the second run continue the first?"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from confirm_support import SCRIPTS

from dllint.confirm.evidence import Judgement, Moment, Record, Settings
from dllint.confirm.launch import run
from dllint.confirm.resuming import compare_runs


def moment(step: int, *weights: float, rate: float = 0.1, states: int = 2) -> Moment:
    return Moment(step, list(weights), [rate], states if step else 0)


def record(*moments: Moment, stop: str = "budget", error: str = "") -> Record:
    return Record(1, 0, "resume", "2.13", "cpu", stop, error, moments=list(moments))


FIRST = record(moment(0, 1.0, 2.0), moment(1, 1.2, 2.2), moment(2, 1.4, 2.4, rate=0.05))


@pytest.mark.parametrize(
    ("begin", "verdict", "message"),
    [
        (Moment(0, [1.4, 2.4], [0.05], 2), "REFUTED", "continues with the weights after step 2"),
        (Moment(0, [1.2, 2.2], [0.1], 2), "REFUTED", "continues with the weights after step 1"),
        (Moment(0, [1.402, 2.398], [0.05], 2), "REFUTED", "continues with the weights after step 2"),
        (Moment(0, [1.4, 2.4], [0.05], 0), "CONFIRMED", "the optimizer has lost its state"),
        (Moment(0, [1.4, 2.4], [0.1], 2), "CONFIRMED", "the learning rate is 0.1 instead of 0.05"),
        (Moment(0, [1.0, 2.0], [0.1], 0), "CONFIRMED", "those that the first began with"),
        (Moment(0, [-0.3, 0.7], [0.1], 0), "CONFIRMED", "none that the first had"),
        (Moment(0, [1.0, 2.0, 3.0], [0.1], 0), "CONFIRMED", "none that the first had"),
    ],
)
def test_how_the_second_run_begins(begin: Moment, verdict: str, message: str) -> None:
    judgement = compare_runs(FIRST, record(begin, moment(1, 9.0, 9.0)))
    assert (judgement.verdict, judgement.voice) == (verdict, "alarm")
    assert message in judgement.message


def test_runs_that_do_not_tell() -> None:
    begin = moment(0, 1.4, 2.4)
    still = record(moment(0, 1.0, 2.0), moment(1, 1.0, 2.0001), moment(2, 1.0, 2.0002))
    failed = record(stop="exception", error="FileNotFoundError: last.pt")
    assert compare_runs(record(), record(begin)).verdict == "INCONCLUSIVE"
    assert compare_runs(still, record(moment(0, 1.0, 1.99995))).verdict == "INCONCLUSIVE"
    assert compare_runs(FIRST, None).verdict == "INCONCLUSIVE"
    assert "FileNotFoundError" in compare_runs(FIRST, failed).message
    done = record(*FIRST.moments, stop="end")
    assert compare_runs(done, None).verdict == "REFUTED"
    assert compare_runs(done, failed).verdict == "INCONCLUSIVE"


def twice(folder: Path, how: str) -> Judgement:
    words = [sys.executable, str(SCRIPTS / "resuming.py"), how]
    settings = Settings("", steps=12, mode="resume")
    outcomes = [run(words, settings, in_place=False, show_output=True, files=folder / "files") for _ in range(2)]
    first, second = (outcome.records[0] for outcome in outcomes)
    assert (first.errors, second.errors) == ([], [])
    return compare_runs(first, second)


@pytest.mark.slow
@pytest.mark.parametrize(("how", "verdict"), [("all", "REFUTED"), ("weights", "CONFIRMED")])
def test_a_script(how: str, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    judgement = twice(tmp_path, how)
    assert judgement.verdict == verdict and "the weights after step 10" in judgement.message
    assert list(work.iterdir()) == []  # the checkpoint is not the user's
