"""``--watch``: a run after each change, until Ctrl-C."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_support import Run
from installing import MODEL, ROOT, TRAINING

from dllint.cli.watch import _look, _top

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs POSIX")


class Watching:
    """A process that watches, and what it has written to its terminal."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dllint", "--watch", "--output-format", "concise", *arguments],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "NO_COLOR": "1"},
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        os.close(theirs)

    def until(self, is_there: Callable[[str], bool]) -> str:
        """What is written until it is as wanted."""
        written = b""
        end = time.monotonic() + 60
        while not is_there(written.decode()):
            assert time.monotonic() < end, written
            if select.select([self._ours], [], [], 0.1)[0]:
                written += os.read(self._ours, 65536)
        return written.decode()

    def run(self) -> str:
        """What the next run writes."""
        return self.until(lambda text: "watching for changes" in text).replace("\r\n", "\n")

    def stop(self) -> tuple[int, float]:
        """Ctrl-C: the exit code, and how long it took."""
        started = time.monotonic()
        os.killpg(self.process.pid, signal.SIGINT)
        code = self.process.wait(timeout=30)
        os.close(self._ours)
        return code, time.monotonic() - started


@pytest.mark.slow
def test_each_change_is_followed_by_a_run(tmp_path: Path) -> None:
    (tmp_path / "dllint.toml").write_text("")
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab" / "train.py").write_text(TRAINING)
    watching = Watching(tmp_path, "lab")
    try:
        first = watching.run()
        assert "\x1b[2J" in first and "Found nothing in 1 file" in first
        (tmp_path / "lab" / "model.py").write_text(MODEL)
        second = watching.run()
        assert second.index("\x1b[2J") < second.index("lab/train.py:12:16: error[DL101]")
        (tmp_path / "dllint.toml").write_text('ignore = ["DL101"]\n')
        assert "Found nothing in 2 files" in watching.run()
        (tmp_path / "dllint.toml").write_text("nonsense")
        assert "not valid TOML" in watching.run()
        (tmp_path / "notes.md").write_text("lr 0.1")
        assert not select.select([watching._ours], [], [], 1.5)[0]
    finally:
        code, took = watching.stop()
    assert (code, took < 2) == (0, True)
    assert list((tmp_path / ".dllint_cache").glob("*.json"))


def test_what_is_looked_at(tmp_path: Path) -> None:
    for name in (
        "a.py",
        "data/big.bin",
        ".venv/x.py",
        "deep/er/run.ipynb",
        "pyproject.toml",
        "requirements.txt",
        "caption.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "gone.py").symlink_to("nowhere")
    names = {os.path.relpath(path, tmp_path) for path in _look([str(tmp_path), str(tmp_path / "nowhere")])}
    assert names == {"a.py", "deep/er/run.ipynb", "pyproject.toml", "requirements.txt", "gone.py"}
    assert _top(str(tmp_path / "deep" / "er")) == _top(str(tmp_path / "a.py")) == str(tmp_path)


def test_what_cannot_be_watched(dllint: Run) -> None:
    for arguments in (["-"], ["--add-ignore", "."]):
        result = dllint("--watch", *arguments)
        assert result.code == 2 and "--watch cannot be combined with" in result.err
