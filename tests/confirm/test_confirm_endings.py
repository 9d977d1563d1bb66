"""How a run ends: by its budget without a trace, by a crash that is told of, and by a signal that leaves nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from confirm_support import SCRIPTS, observed

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_threads_and_processes_end_by_their_budget_in_silence(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    outcome = observed(SCRIPTS / "budgets.py", steps=5)
    output = capfd.readouterr().err
    assert [(record.steps, record.stop) for record in outcome.records] == [(5, "budget"), (5, "budget")]
    assert outcome.exit_code == 0 and "Traceback" not in output
    assert output.split("CODE ")[1:] == ["0\n", "None\n", "0\n"]
