"""Runs that are made for an answer: one batch again and again, and a learning rate that rises."""

from __future__ import annotations

from pathlib import Path

import pytest
from confirm_support import SCRIPTS, observed

pytest.importorskip("torch")

from dllint.cli import main
from dllint.confirm.evidence import Judgement, Record, Settings
from dllint.confirm.inside.run import Run
from dllint.confirm.probes.overfit import Overfit

pytestmark = pytest.mark.slow


def experiment(*arguments: str, mode: str, steps: int) -> tuple[Record, Judgement]:
    (record,) = observed(SCRIPTS / "learning.py", *arguments, steps=steps, mode=mode).records
    assert record.errors == []
    (judgement,) = record.judgements
    return record, judgement


def test_a_loop_that_learns_learns_one_batch() -> None:
    record, judgement = experiment(mode="overfit", steps=200)
    assert judgement.verdict == "REFUTED" and judgement.statistics["last"] < 0.01 * judgement.statistics["first"]
    assert len(record.traces["loss on one batch"]) == 200 and record.stop == "budget"


def test_a_loop_that_is_cut_off_does_not() -> None:
    _, judgement = experiment("cut", mode="overfit", steps=200)
    assert judgement.verdict == "CONFIRMED" and judgement.statistics["last"] > 0.5 * judgement.statistics["first"]


def test_range_of_learning_rates() -> None:
    _, judgement = experiment(mode="lr-range", steps=100)
    found = judgement.statistics
    assert found["own"] == 0.01
    assert 1e-6 < found["flat"] <= found["steepest"] <= found["lowest"] < found["diverges"] <= 10
    assert 1e-4 < found["lowest"] < 1


def test_a_loader_that_is_too_short_for_the_range_is_gone_through_again() -> None:
    record, judgement = experiment("once", mode="lr-range", steps=100)
    assert record.steps == 100 and judgement.statistics["own"] == 0.01


@pytest.mark.parametrize(
    ("losses", "verdict"),
    [
        ([0.693 - 0.0002 * step for step in range(200)], "INCONCLUSIVE"),  # as a preference at a rate of 5e-6
        ([0.693 + 0.01 * (-1) ** step for step in range(200)], "CONFIRMED"),
        ([0.693 * 0.97**step for step in range(200)], "REFUTED"),
    ],
)
def test_what_is_learned_slowly_has_not_failed(losses: list[float], verdict: str) -> None:
    run = Run(Settings("", mode="overfit"))
    run.frozen_batches = 1
    probe = Overfit(run)
    probe.losses = losses
    assert [item.verdict for item in probe.judge()] == [verdict]


def test_as_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    script = str(SCRIPTS / "learning.py")
    assert main(["confirm", "--quiet", "--overfit-one-batch", script]) == 0
    assert "PASSED       overfit-one-batch: on one batch, the loss went from" in capfd.readouterr().out
    assert main(["confirm", "--quiet", "--overfit-one-batch", "--lr-range", script, "--", "cut"]) == 1
    output = capfd.readouterr().out
    assert "FAILED       overfit-one-batch" in output and "NOTE         lr-range: " in output
