"""Correct programs of many kinds: no probe raises an alarm, and all numbers are those of a run without dllint."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from confirm_support import SCRIPTS, observed

from dllint.confirm.evidence import Judgement, Record, Settings
from dllint.confirm.launch import Outcome, run
from dllint.confirm.verdicts import settle

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path


def digests(output: str) -> list[str]:
    """The lines in which a script tells its weights and its next random numbers."""
    return sorted(line for line in output.splitlines() if line.startswith("DIGEST"))


def plainly(*words: str) -> list[str]:
    """What a script tells when it is run without dllint."""
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return digests(done.stdout)


def quiet(outcome: Outcome) -> list[Record]:
    """The records of a run that went well, and in which nothing raised an alarm or confirmed a rule."""
    assert outcome.exit_code == 0
    assert [(record.errors, record.stop, record.error) for record in outcome.records] == [
        ([], "end", "") for _ in outcome.records
    ]
    assert settle([], outcome.records).alarms == []
    return outcome.records


def test_loops_by_hand(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = str(SCRIPTS / "correct.py")
    (record,) = quiet(observed(script))
    assert digests(capfd.readouterr().err) == plainly(script)
    assert record.backwards > 100


@pytest.mark.parametrize(("library", "steps"), [("lightning", 12), ("transformers", 8)])
def test_frameworks(library: str, steps: int, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (script,) = map(str, SCRIPTS.glob(f"{library}_*.py"))
    (record,) = quiet(observed(script))
    assert digests(capfd.readouterr().err) == plainly(script)
    assert record.steps == steps
    assert not confirmed_in_loop(record)


def confirmed_in_loop(record: Record) -> list[Judgement]:
    return [item for item in record.judgements if item.verdict == "CONFIRMED" and item.rule.startswith("DL2")]


def test_accelerate_with_its_launcher(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["-m", "accelerate.commands.launch", "--cpu", "--num_processes", "1", str(SCRIPTS / "accelerate_train.py")]
    bounds = Settings("", steps=0, epoch_batches=0)
    (record,) = quiet(run([sys.executable, *words], bounds, in_place=False, show_output=True))
    assert digests(capfd.readouterr().err) == plainly(*words)
    assert record.steps == 12
    assert not confirmed_in_loop(record)


def test_two_processes_that_exchange_gradients(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    script = str(SCRIPTS / "ranks.py")
    records = quiet(observed(script, str(folder / "store")))
    assert [(record.rank, record.steps) for record in records] == [(0, 8), (1, 8)]
    for record in records:
        assert [item.verdict for item in record.judgements if item.rule == "DL414"] == ["REFUTED"]
    told = digests(capfd.readouterr().err)
    assert len(told) == 2 and told == plainly(script, str(folder / "another store"))


def test_epochs_of_lightning_end_early_and_validate(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (record,) = observed(str(SCRIPTS / "long_lightning.py"), steps=6, epoch_batches=3).records
    assert (record.errors, record.stop, record.steps) == ([], "budget", 6)
    assert record.timeline.count("LZEfff") == 1 and record.timeline.count("L") == 1
    assert "VALIDATED 2 300" in capfd.readouterr().err  # schedules are made for the length that the loader has
