"""Ctrl-C: a run ends at once, leaves nothing behind, and keeps what it has done."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from installing import ROOT

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs POSIX")

FILES = 60
RULE = '''
"""Takes its time.

It has all day.
"""

import os
import time

from dllint.api import Rule


class Slow(Rule):
    code = "DL199"
    name = "slow"
    category = "pedantic"
    triggers = (("torch",),)

    def on_program(self, program, ctx):
        open(f"seen/{os.getpid()}-{time.monotonic_ns()}", "w").close()
        until = time.monotonic() + 0.7
        while time.monotonic() < until:
            time.sleep(0.01)
        return ()
'''


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "dllint.toml").write_text('rule-paths = ["rules"]\nselect = ["DL199"]\nexclude = ["rules"]\n')
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "dl199_slow.py").write_text(RULE)
    (tmp_path / "seen").mkdir()
    for number in range(FILES):
        (tmp_path / f"train{number:02}.py").write_text("import torch\n\nprint(torch.rand(3))\n")
    return tmp_path


def start(project: Path, jobs: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "dllint", "--jobs", str(jobs), "."],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )


def seen(project: Path) -> set[str]:
    """The processes that have begun to analyze a file, once for each file."""
    return set(os.listdir(project / "seen"))


def kept(project: Path) -> int:
    """The number of files of which results are kept."""
    return sum(len(json.loads(file.read_text())["entries"]) for file in (project / ".dllint_cache").glob("*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("to_all", [True, False], ids=["from the terminal", "to the process"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_run_ends_at_once_and_keeps_what_it_has_done(project: Path, jobs: int, to_all: bool) -> None:
    process = start(project, jobs)
    deadline = time.monotonic() + 60
    while len(seen(project)) < 3 * jobs and time.monotonic() < deadline:
        time.sleep(0.05)
    began = len(seen(project))
    assert began >= 3 * jobs
    interrupted = time.monotonic()
    (os.killpg if to_all else os.kill)(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=30)
    took = time.monotonic() - interrupted
    assert (process.returncode, out, err) == (130, "", "\ndllint: interrupted\n")
    assert took < 2, "about 0.3 s with one process and 0.5 s with two, on a machine that has nothing else to do"
    assert began - jobs <= kept(project) < FILES
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)  # nothing is left of the group


@pytest.mark.slow
def test_the_next_run_goes_on_from_there(project: Path) -> None:
    for number in range(6, FILES):
        (project / f"train{number:02}.py").unlink()
    process = start(project, 1)
    while len(seen(project)) < 3:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    before = kept(project)
    assert before >= 2
    for file in (project / "seen").iterdir():
        file.unlink()
    _, err = start(project, 1).communicate(timeout=60)
    assert err == ""
    assert len(seen(project)) == 6 - before
