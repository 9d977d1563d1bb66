"""A command that is run twice: does the second run continue the first?"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from confirm_support import SCRIPTS

from dllint.confirm.comparing import compare_runs
from dllint.confirm.evidence import Judgement, Moment, Record, Settings
from dllint.confirm.launch import run
from dllint.confirm.verdicts import settle, settle_by_resuming
from dllint.findings import Finding, Location


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


def test_a_schedule_that_begins_again_and_a_run_that_is_made_again() -> None:
    def steps(*rates: float, start: float = 0.0) -> list[Moment]:
        return [moment(step, 1.0 + start + step, 2.0, rate=rate) for step, rate in enumerate(rates)]

    first = record(*steps(0.1, 0.09, 0.05, 0.01), stop="end")
    begin = Moment(0, [4.0, 2.0], [0.01], 2)
    judgement = compare_runs(first, record(begin, *steps(0.09, 0.05, 0.05, start=4.0)))
    assert judgement.statistics["lost"] == ["DL713"] and "0.09 instead of 0.01" in judgement.message
    judgement = compare_runs(first, record(begin, *steps(0.01, 0.01, 0.01, 0.01, start=4.0), stop="end"))
    assert judgement.statistics["lost"] == ["DL711"] and "3 steps again" in judgement.message
    early, last = record(*steps(0.1, 0.09, 0.05, 0.01)), moment(2, 9.0, 9.0)
    middle = Moment(0, [2.0, 2.0], [0.09], 2)
    assert compare_runs(early, record(middle, moment(1, 3.0, 2.0, rate=0.05), last)).verdict == "REFUTED"
    assert compare_runs(early, record(middle, moment(1, 3.0, 2.0, rate=0.1), last)).statistics["lost"] == ["DL713"]


def course(start: int, *, scale: float = 64.0, epoch: int = 0, batches: tuple[int, ...] = (0, 1, 2, 3)) -> Record:
    """Four steps in one pass over a loader, with a checkpoint after the second."""
    moments = [moment(0, 1.0 + start, 1.0)]
    for step, batch in enumerate(batches, 1):
        moments.append(moment(step, 1.0 + start + step, 1.0))
        moments[-1].batch, moments[-1].place = [2 * batch, 2 * batch + 1], [0, step]
    for each in moments:
        each.scale = scale
    moments[0].states = 2 if start else 0
    moments[2].counters = {"epoch": epoch}
    return record(*moments)


@pytest.mark.parametrize(
    ("second", "verdict", "lost", "kept"),
    [
        (course(2, epoch=5, batches=(2, 3)), "REFUTED", [], ["DL703", "DL701", "DL713", "DL714", "DL711", "DL712"]),
        (course(2, epoch=5), "REFUTED", ["DL712"], ["DL703", "DL701", "DL713", "DL714", "DL711"]),
        (course(2, epoch=5, batches=(1, 3)), "REFUTED", [], ["DL703", "DL701", "DL713", "DL714", "DL711"]),
        (course(2, epoch=1, batches=(2, 3)), "CONFIRMED", ["DL711"], ["DL703", "DL701", "DL713", "DL714", "DL712"]),
        (course(2, scale=2.0, epoch=5), "CONFIRMED", ["DL714", "DL712"], ["DL703", "DL701", "DL713", "DL711"]),
        (course(0), "CONFIRMED", ["DL703"], []),
    ],
)
def test_the_rules_about_what_is_lost(second: Record, verdict: str, lost: list[str], kept: list[str]) -> None:
    judgement = compare_runs(course(0, epoch=4), second)
    assert (judgement.verdict, judgement.statistics["lost"]) == (verdict, lost)
    assert judgement.statistics.get("kept", []) == kept
    assert all(f"({rule})" in judgement.message for rule in lost)


def test_findings_that_two_runs_decide() -> None:
    findings = [
        Finding(code, "a-rule", "message", Location("train.py", line, 1, line, 9), "error", "correctness")
        for line, code in enumerate(("DL703", "DL711", "DL712", "DL101"), 1)
    ]
    verdicts = settle(findings, [])
    settle_by_resuming(verdicts, compare_runs(course(0, epoch=4), course(2, epoch=1, batches=(2, 3))))
    answers = [item.answer for item in verdicts.settled]
    assert answers == ["REFUTED", "CONFIRMED", "REFUTED", "NOT REACHED"]
    assert verdicts.confirmed == 2  # the finding, and that the command does not resume


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
@pytest.mark.parametrize(("how", "lost"), [("all", []), ("weights", ["DL701", "DL713"])])
def test_a_script(how: str, lost: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    judgement = twice(tmp_path, how)
    assert judgement.verdict == ("CONFIRMED" if lost else "REFUTED")
    assert "the weights after step 10" in judgement.message and judgement.statistics["lost"] == lost
    assert "DL711" in judgement.statistics["kept"]
    assert list(work.iterdir()) == []  # the checkpoint is not the user's
