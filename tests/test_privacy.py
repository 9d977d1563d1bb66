"""Nothing leaves the machine: a process that opens a socket ends at once, and dllint does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dllint.report import FORMATS

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "fixtures" / "demo"

GUARD = """\
import os
import sys


def watch(event, arguments):
    if event.startswith(("socket.", "urllib.", "http.client.", "ftplib.", "smtplib.")):
        os.write(2, f"NETWORK: {event} {arguments}\\n".encode())
        os._exit(77)


sys.addaudithook(watch)
"""


@pytest.fixture
def guarded(tmp_path: Path) -> dict[str, str]:
    """An environment in which each Python process ends where it touches the network."""
    (tmp_path / "guard").mkdir()
    (tmp_path / "guard" / "sitecustomize.py").write_text(GUARD)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "guard"), str(ROOT)])}


def run(environment: dict[str, str], *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], env=environment, cwd=cwd, capture_output=True, text=True, check=False
    )


def test_the_guard_ends_a_process_that_opens_a_socket(guarded: dict[str, str], tmp_path: Path) -> None:
    done = run(guarded, "-c", "import socket; socket.socket()", cwd=tmp_path)
    assert done.returncode == 77 and "NETWORK" in done.stderr
    pool = "from concurrent.futures import ProcessPoolExecutor as P\nimport socket\n"
    done = run(guarded, "-c", f"{pool}with P(1) as p: p.submit(socket.socket).result()", cwd=tmp_path)
    assert done.returncode != 0 and "NETWORK" in done.stderr, "workers are watched as well"


@pytest.mark.parametrize(
    "words",
    [
        ("fixtures",),
        ("fixtures", "--jobs", "2"),
        ("fixtures", "--jobs", "2"),  # from the cache
        *((f"--output={fmt}:report", "fixtures/engine.py") for fmt in FORMATS),
        pytest.param(("--diff", "--unsafe-fixes", "fixtures"), marks=pytest.mark.slow),
        ("rule", "--all", "--output-format", "json"),
        ("config", "--show", "."),
        ("baseline", "fixtures"),
    ],
    ids=" ".join,
)
def test_no_socket_is_opened(words: tuple[str, ...], guarded: dict[str, str], tmp_path: Path) -> None:
    target = tmp_path / "fixtures"
    target.mkdir()
    for path in filter(Path.is_file, DEMO.iterdir()):  # a cache may lie there
        (target / path.name).write_bytes(path.read_bytes())
    for number in range(12):  # enough for several processes
        (target / f"copy{number}.py").write_bytes((DEMO / "engine.py").read_bytes())
    for _ in range(2):
        done = run(guarded, "-m", "dllint", *words, cwd=tmp_path)
        assert done.returncode in (0, 1), done.stderr
        assert "NETWORK" not in done.stderr


@pytest.mark.slow
def test_findings_load_nothing_from_elsewhere(guarded: dict[str, str], tmp_path: Path) -> None:
    for fmt in ("sarif", "json", "junit", "gitlab", "github"):
        done = run(guarded, "-m", "dllint", str(DEMO), "--no-cache", "--output-format", fmt, cwd=tmp_path)
        addresses = {word for word in done.stdout.split('"') if word.startswith("http")}
        allowed = ("https://docs.oasis-open.org/",)  # the name of the schema of SARIF
        assert [address for address in addresses if not address.startswith(allowed)] == [], fmt
