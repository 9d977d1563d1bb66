"""How a run ends: by its budget without a trace, by a crash that is told of, and by a signal that leaves nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confirm_support import SCRIPTS, observed

import dllint
from dllint.cli import main

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


def test_a_crash_after_some_steps_is_told_of(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["confirm", "--quiet", str(SCRIPTS / "endings.py"), "--", "raise"]) == 2
    errors = capfd.readouterr().err
    assert "the command failed after 5 steps: RuntimeError: the disk is full (exit code 1)" in errors
    assert "dllint: warning:   FINALLY True" in errors and "try:" not in errors


def test_nothing_is_new_in_the_folder_that_the_script_finds(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "train.py").write_text("import os\nprint(sorted(os.listdir('.')))\n")
    main(["confirm", "train.py"])
    assert "['train.py']" in capfd.readouterr().err


def test_sigterm_ends_all_that_was_started_and_leaves_no_folder(folder: Path) -> None:
    (folder / "temporary").mkdir()
    inner = [sys.executable, str(SCRIPTS / "endings.py"), "slow"]
    (folder / "train.py").write_text(f"import subprocess\nsubprocess.run({inner!r})\n")
    path = str(Path(dllint.__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": path, "TMPDIR": str(folder / "temporary")}
    words = [sys.executable, "-m", "dllint", "confirm", "--steps", "0", "train.py"]
    started = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert started.stderr is not None
    assert any("STEPPING" in line for line in started.stderr)
    assert running("slow") or not Path("/proc").is_dir()
    started.send_signal(signal.SIGTERM)
    started.communicate(timeout=60)
    assert started.returncode == 143
    assert list((folder / "temporary").iterdir()) == []
    assert ended("slow", seconds=10)


def ended(word: str, seconds: float) -> bool:
    """Whether those commands are gone within the time: a busy system takes a moment to bury what was killed."""
    last = time.monotonic() + seconds
    while running(word) and time.monotonic() < last:
        time.sleep(0.05)
    return not running(word)


def running(word: str) -> list[str]:
    """The commands that run this test's script and have a word, where the system tells of them."""
    told = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            told.append(file.read_text().replace("\0", " "))
        except OSError:
            continue
    return [line for line in told if f"endings.py {word}" in line]


def test_warnings_models_and_packages_are_those_of_the_user(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (folder / "packages" / "stepping-1.0.dist-info").mkdir(parents=True)
    step = "def step(optimizer, loss):\n    optimizer.zero_grad()\n    loss.backward()\n    optimizer.step()\n"
    (folder / "packages" / "stepping.py").write_text(step)
    monkeypatch.setenv("PYTHONPATH", str(folder / "packages"))
    script = str(SCRIPTS / "warned.py")
    plain = subprocess.run([sys.executable, "-u", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert plain.stdout.count("Warning: ") == 4
    (record,) = observed(script).records
    assert capfd.readouterr().err == plain.stdout
    assert record.timeline == "L" + "FFZBS" * 3 + "FZBS" * 3
    stacks = [stack for judgement in record.judgements for stack in judgement.stacks]
    assert {frame.path for stack in stacks for frame in stack} == {script}
