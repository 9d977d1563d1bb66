"""The command line in this process: what it changes in files."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest
from cli_support import BOTH, Run, write

from dllint.cli import main


class TestFixing:
    def test_safe_fixes_are_applied_and_the_rest_is_reported(self, dllint: Run, project: Path) -> None:
        path = write(project / "a.py", BOTH)
        result = dllint("--fix")
        assert (result.code, result.lines) == (1, ["a.py:1 DL101"])
        assert path.read_text() == "a = softmax(x)\nb = zero(y)\n"
        assert result.err.splitlines() == [
            "dllint: fixed 1 finding in 1 file",
            "dllint: 1 finding has a fix that changes the numbers of a run; --diff --unsafe-fixes shows it",
        ]

    @pytest.mark.parametrize("option", ["--fix", "--diff"])
    def test_where_there_are_unsafe_fixes_alone_it_is_said_how_to_see_them(
        self, dllint: Run, project: Path, option: str
    ) -> None:
        write(project / "a.py", "a = softmax(x)\n")
        write(project / "b.py", "b = softmax(x)\nc = fussy(x)\n")
        result = dllint(option)
        assert (result.code, result.err.splitlines()) == (
            1,
            ["dllint: 2 findings have fixes that change the numbers of a run; --diff --unsafe-fixes shows them"],
        )
        assert "+a = logits(x)" in dllint("--diff", "--unsafe-fixes").out
        write(project / "b.py", "")
        write(project / "a.py", "b = fussy(x)\n")
        assert dllint(option, "--extend-select", "DL110").err == ""

    def test_unsafe_fixes_when_asked_for(self, dllint: Run, project: Path) -> None:
        path = write(project / "a.py", BOTH)
        result = dllint("--fix", "--unsafe-fixes", "--show-fixes")
        assert (result.code, result.lines) == (0, [])
        assert path.read_text() == "a = logits(x)\nb = zero(y)\n"
        assert result.err.splitlines() == [
            "dllint: fixed a.py: DL101 softmax-before-cross-entropy",
            "dllint: fixed a.py: DL202 missing-zero-grad",
            "dllint: fixed 2 findings in 1 file",
        ]

    def test_a_patch_changes_nothing_and_can_be_applied(self, dllint: Run, project: Path) -> None:
        for name in ("a.py", "sub/b.py"):
            write(project / name, BOTH)
        result = dllint("--diff")
        assert result.code == 1
        assert (project / "a.py").read_text() == BOTH
        subprocess.run(["git", "apply", "-"], input=result.out, text=True, check=True)
        assert (project / "sub" / "b.py").read_text() == "a = softmax(x)\nb = zero(y)\n"
        assert dllint("--diff").out == ""

    def test_a_patch_that_would_mend_what_does_not_fail_the_run_fails_it(self, dllint: Run, project: Path) -> None:
        write(project / "a.py", "b = nozero(y)\n")
        assert dllint("--diff", "--fail-on", "error").code == 1
        assert dllint("--diff", "--fail-on", "error", "--exit-zero").code == 0
        assert dllint("--fix", "--fail-on", "error").code == 0
        assert dllint("--diff", "--fail-on", "error").code == 0

    def test_standard_input_is_passed_on_fixed_and_the_report_goes_to_standard_error(
        self, project: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        data = "# coding: latin-1\r\nx = 'é'\r\nsoftmax(1)\r\nnozero(2)\r\n".encode("latin-1")
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert main(["-", "--fix", "--statistics"]) == 1
        out, err = capfdbinary.readouterr()
        assert out == data.replace(b"nozero", b"zero")
        assert b"DL101" in err and b"DL202" not in err

    @pytest.mark.parametrize("data", [b"x = 1\n", b"\xff\xfe\x00", b""])
    def test_standard_input_with_nothing_to_fix_is_passed_on_as_it_is(
        self, project: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes], data: bytes
    ) -> None:
        write(project / "dllint.toml", "exclude = ['no.py']\n")
        for arguments in (["-"], ["-", "--stdin-filename", "no.py"]):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
            main([*arguments, "--fix"])
            assert capfdbinary.readouterr()[0] == data

    def test_what_is_in_the_baseline_is_left_alone(self, dllint: Run, project: Path) -> None:
        path = write(project / "a.py", "b = nozero(y)\n")
        dllint("baseline")
        path.write_text("b = nozero(y)\nc = nozero(z)\n")
        dllint("--fix")
        assert path.read_text() == "b = nozero(y)\nc = zero(z)\n"

    def test_unused_suppressions_are_removed(self, dllint: Run, project: Path) -> None:
        path = write(project / "a.py", "x = 1  # dllint: ignore[DL101]\n")
        assert dllint().lines == ["a.py:1 DL004"]
        assert dllint("--fix").code == 0
        assert path.read_text() == "x = 1\n"

    def test_a_file_that_cannot_be_written(self, dllint: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("dllint.files.atomic.write_atomic", refuse)
        write(project / "a.py", BOTH)
        result = dllint("--fix")
        assert result.code == 2
        assert "dllint: error: a.py: cannot be written: no space left on device" in result.err


class TestAddIgnore:
    def test_everything_reported_is_suppressed(self, dllint: Run, project: Path) -> None:
        path = write(project / "a.py", BOTH)
        result = dllint("--add-ignore", ".")
        assert (result.code, result.lines) == (0, [])
        assert result.err == "dllint: suppressed 2 findings in 1 file\n"
        assert path.read_text() == (
            "a = softmax(x)  # dllint: ignore[softmax-before-cross-entropy]\n"
            "b = nozero(y)  # dllint: ignore[missing-zero-grad]\n"
        )
        assert dllint().code == 0
        assert dllint("--add-ignore").err == ""

    def test_a_reason(self, dllint: Run, project: Path) -> None:
        path = write(project / "a.py", "a = softmax(x)\n")
        write(project / "dllint.toml", "require-reason = true\n")
        assert dllint("--add-ignore").code == 2
        assert dllint("--add-ignore=known, see #12").code == 0
        assert path.read_text().endswith("  # dllint: ignore[softmax-before-cross-entropy] -- known, see #12\n")
        assert dllint().code == 0

    def test_what_cannot_be_suppressed_is_reported(self, dllint: Run, project: Path) -> None:
        write(project / "a.py", BOTH)
        write(project / "b.py", "def f(:\n")
        result = dllint("--add-ignore")
        assert (result.code, result.lines) == (1, ["b.py:1 DL001"])
