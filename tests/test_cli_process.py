"""The command line as a process: exit codes with closed pipes, full disks and interruptions; what start-up loads."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
DRIVER = TESTS / "cli_support.py"
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{TESTS.parent}{os.pathsep}{TESTS}"}
for name in ("FORCE_COLOR", "NO_COLOR"):
    ENVIRONMENT.pop(name, None)

posix = pytest.mark.skipif(os.name == "nt", reason="needs POSIX")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "a.py").write_text("a = softmax(x)\n" * 3000)
    (tmp_path / "clean.py").write_text("x = 1\n")
    return tmp_path


def dllint(project: Path, arguments: str, shell: str = "{}") -> subprocess.CompletedProcess[str]:
    """Run dllint in a shell, whose line has ``{}`` in the place of the command."""
    line = shell.format(f"{sys.executable} {DRIVER} {arguments}")
    return subprocess.run(["bash", "-c", line], cwd=project, env=ENVIRONMENT, capture_output=True, text=True)


def test_exit_codes_of_the_process(project: Path) -> None:
    assert dllint(project, "clean.py").returncode == 0
    assert dllint(project, "a.py").returncode == 1
    assert dllint(project, "nowhere.py").returncode == 2
    assert dllint(project, "--nonsense").returncode == 2


def test_as_a_module(project: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dllint", "--version"], cwd=project, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("dllint ")


@posix
@pytest.mark.parametrize(("arguments", "code"), [("a.py", 1), ("--exit-zero a.py", 0), ("a.py nowhere.py", 2)])
@pytest.mark.parametrize("reader", ["head -n 1", "true"])
def test_a_reader_that_goes_away_changes_no_exit_code(project: Path, arguments: str, code: int, reader: str) -> None:
    done = dllint(project, arguments, "{} | " + reader + "; exit ${{PIPESTATUS[0]}}")
    assert done.returncode == code
    assert "BrokenPipe" not in done.stderr and "Traceback" not in done.stderr


@posix
@pytest.mark.parametrize("arguments", ["--help", "--version", "rule --all", "config --schema", "completion zsh"])
def test_nor_that_of_what_prints_help(project: Path, arguments: str) -> None:
    done = dllint(project, arguments, "{} | true; exit ${{PIPESTATUS[0]}}")
    assert (done.returncode, done.stderr) == (0, "")


@posix
@pytest.mark.parametrize(("shell", "code"), [("{} >&-", 1), ("{} 2>&-", 1), ("{} >&- 2>&-", 1), ("{} <&-", 1)])
def test_closed_streams_change_no_exit_code(project: Path, shell: str, code: int) -> None:
    done = dllint(project, "a.py", shell)
    assert done.returncode == code
    assert "Traceback" not in done.stderr


@posix
def test_closed_standard_input_is_an_error_when_it_is_to_be_read(project: Path) -> None:
    done = dllint(project, "-", "{} <&-")
    assert (done.returncode, done.stderr.splitlines()[0]) == (2, "dllint: error: standard input is closed")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_output_that_is_lost_is_an_error(project: Path) -> None:
    done = dllint(project, "clean.py", "{} > /dev/full")
    assert done.returncode == 2
    assert done.stderr == "dllint: error: standard output cannot be written: No space left on device\n"


@posix
def test_names_and_code_that_no_encoding_has(project: Path) -> None:
    os.rename(project / "clean.py", os.fsencode(project) + b"/n\xe9.py")
    (project / "a.py").write_text("softmax('é🚀')\n")
    for encoding in ("ascii", "utf-8"):
        line = f"PYTHONIOENCODING={encoding} {{}}"
        for fmt in ("full", "concise", "json", "sarif"):
            done = dllint(project, f"--output-format {fmt} .", line)
            assert done.returncode == 1, done.stderr
            assert done.stderr == ""


@posix
def test_an_interruption_gives_130_and_no_traceback(project: Path) -> None:
    script = (
        "import sys, time, cli_support, tempfile, pathlib\n"
        "cli_support.install(pathlib.Path(tempfile.mkdtemp()))\n"
        "sys.modules['dllint.runner'].lint_files = lambda *a, **k: (print('ready', flush=True), time.sleep(60))\n"
        "from dllint.cli import main\n"
        "sys.exit(main(['.']))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=project,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err == b"\ndllint: interrupted\n"


def test_start_up_loads_nothing_heavy(project: Path) -> None:
    heavy = ["libcst", "astroid", "asyncio", "torch", "json", "dataclasses", "difflib", "importlib.metadata"]
    heavy += ["multiprocessing", "tomllib", "dllint.findings", "dllint.registry", "dllint.engine", "dllint.report"]
    script = f"import sys, dllint.cli; print(sorted(set({heavy!r}) & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@posix
class TestTerminal:
    def run(self, project: Path, arguments: list[str], **environment: str) -> str:
        """What a run writes to a terminal."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, str(DRIVER), *arguments],
            cwd=project, env={**ENVIRONMENT, "TERM": "xterm", **environment}, stdout=theirs, stderr=theirs,
        )  # fmt: skip
        os.close(theirs)
        written = b""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    written += os.read(ours, 65536)
                except OSError:  # the terminal is closed when the process has ended
                    break
        process.wait(timeout=10)
        os.close(ours)
        return written.decode()

    def test_the_full_format_in_color_is_the_default(self, project: Path) -> None:
        (project / "a.py").write_text("a = softmax(x)\n")
        written = self.run(project, ["."])
        assert "a = softmax(x)" in written and "\x1b[" in written

    @pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
    def test_colors_are_left_out_where_they_are_not_wanted(self, project: Path, environment: dict[str, str]) -> None:
        (project / "a.py").write_text("a = softmax(x)\n")
        written = self.run(project, ["."], **environment)
        assert "a = softmax(x)" in written and "\x1b[" not in written

    @pytest.mark.slow
    def test_a_bar_is_shown_on_long_runs_and_taken_away(self, project: Path) -> None:
        (project / "clean.py").write_text("slow(1)\n")
        assert "\r" not in self.run(project, ["--output-format", "concise"]).replace("\r\n", "\n")
        for name in ("b.py", "c.py"):
            (project / name).write_text("slow(1)\n")
        written = self.run(project, ["--output-format", "concise", "--statistics"])
        assert "/4 files" in written and written.rpartition("/4 files")[2].startswith("\r\x1b[2K")
        assert "files" not in self.run(project, ["--statistics"], TERM="dumb")
