"""The command line in this process: what each option does to files, output and exit code."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import cli_support
import pytest

from dllint import registry
from dllint.cli import main

Run = Callable[..., "Result"]

RULE = """\
\"""Ours.\"""
from dllint.rule import Rule

class Own(Rule):
    code = "DL901"
    name = "own-rule"
    category = "correctness"
"""


class Result:
    """What a run returned and wrote."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err

    @property
    def lines(self) -> list[str]:
        """The findings on standard output as ``path:line CODE``."""
        found = []
        for line in self.out.splitlines():
            place, _, rest = line.partition(": ")
            if "[DL" in rest:
                found.append(f"{place.rpartition(':')[0]} {rest.partition('[')[2][:5]}")
        return found


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty project with the small linter, as the working directory."""
    rules = tmp_path / "rules"
    rules.mkdir()
    monkeypatch.setattr(registry, "builtin_directory", registry.builtin_directory)
    monkeypatch.setitem(sys.modules, "dllint.runner", None)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    cli_support.install(rules)
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    yield folder
    registry.load_registry.cache_clear()


@pytest.fixture
def dllint(project: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs dllint and returns what came of it."""

    def run(*arguments: str) -> Result:
        code = main(list(arguments))
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return run


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


BOTH = "a = softmax(x)\nb = nozero(y)\n"


class TestExitCodes:
    def test_clean(self, dllint: Run, project: Path) -> None:
        write(project / "a.py", "x = 1\n")
        assert dllint(".").code == 0

    def test_findings(self, dllint: Run, project: Path) -> None:
        write(project / "a.py", BOTH)
        result = dllint("a.py")
        assert (result.code, result.lines) == (1, ["a.py:1 DL101", "a.py:2 DL202"])

    @pytest.mark.parametrize(("fail_on", "code"), [("error", 0), ("warning", 1), ("info", 1), ("never", 0)])
    def test_from_a_severity_on(self, dllint: Run, project: Path, fail_on: str, code: int) -> None:
        write(project / "a.py", "b = nozero(y)\n")
        result = dllint("--fail-on", fail_on)
        assert (result.code, result.lines) == (code, ["a.py:1 DL202"])

    def test_an_info_does_not_fail_by_default(self, dllint: Run, project: Path) -> None:
        write(project / "a.py", "fussy(1)\n")
        result = dllint("--select", "ALL")
        assert (result.code, result.lines) == (0, ["a.py:1 DL110"])

    def test_each_project_fails_by_its_own_configuration(self, dllint: Run, project: Path) -> None:
        write(project / "lax" / "dllint.toml", "fail-on = 'error'\n")
        write(project / "lax" / "a.py", "b = nozero(y)\n")
        assert dllint(".").code == 0
        write(project / "a.py", "b = nozero(y)\n")
        assert dllint(".").code == 1

    def test_exit_zero_hides_findings_and_not_problems(self, dllint: Run, project: Path) -> None:
        write(project / "a.py", BOTH)
        assert dllint("--exit-zero").code == 0
        assert dllint("--exit-zero", "a.py", "nowhere.py").code == 2

    def test_a_file_that_is_not_there(self, dllint: Run, project: Path) -> None:
        write(project / "a.py", BOTH)
        result = dllint("a.py", "nowhere.py")
        assert (result.code, result.lines) == (2, ["a.py:1 DL101", "a.py:2 DL202"])
        assert "dllint: error: nowhere.py: no such file" in result.err

    def test_a_crash(self, dllint: Run, project: Path) -> None:
        write(project / "a.py", "crash(1)\n")
        result = dllint()
        assert result.code == 2
        assert "dllint: error: a.py: rule DL101 failed" in result.err

    def test_a_syntax_error_is_a_finding(self, dllint: Run, project: Path) -> None:
        write(project / "a.py", "def f(:\n")
        result = dllint()
        assert (result.code, result.lines) == (1, ["a.py:1 DL001"])

    def test_no_files(self, dllint: Run, project: Path) -> None:
        result = dllint(".")
        assert (result.code, result.out, result.err) == (0, "", "dllint: no files to check\n")

    @pytest.mark.parametrize(
        "arguments",
        [
            ["--nonsense"],
            ["-", "a.py"],
            ["-", "--since", "HEAD"],
            ["-", "--add-ignore"],
            ["--stdin-filename", "a.py"],
            ["--output-format", "xml"],
            ["--output", "sarif"],
            ["--output", "xml:file"],
            ["--output", "json:"],
            ["--fail-on", "sometimes"],
            ["--jobs", "0"],
            ["--select", "DL1O1"],
            ["--per-file-ignores", "DL101"],
            ["--config", "selct = []"],
            ["--config", "nowhere.toml"],
            ["--config", "dllint.toml", "--isolated"],
            ["--config", "dllint.toml", "--config", "dllint.toml"],
            ["--add-ignore", "--fix"],
            ["--baseline", "nowhere.json"],
            ["--since", "nowhere"],
            ["rule", "DL999"],
            ["rule"],
            ["rule", "DL101", "--all"],
            ["config", "selct"],
            ["config", "--show", "nowhere"],
            ["config", "select", "--schema"],
            ["completion", "tcsh"],
            ["baseline", "prune"],
            ["baseline", "--isolated"],
            ["new", "DL1", "some-name"],
        ],
    )
    def test_what_cannot_be_done_is_an_error_in_a_line_or_two(
        self, dllint: Run, project: Path, arguments: list[str]
    ) -> None:
        write(project / "dllint.toml", "")
        write(project / "a.py", "x = 1\n")
        result = dllint(*arguments)
        assert result.code == 2
        assert result.out == ""
        assert result.err.startswith("dllint: error: ") and "Traceback" not in result.err
        assert len(result.err.splitlines()) <= 2

    def test_a_bug_in_dllint_is_not_taken_for_findings(
        self, dllint: Run, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys.modules["dllint.runner"], "lint_files", None)
        write(project / "a.py", "x = 1\n")
        result = dllint()
        assert result.code == 2
        assert "TypeError" in result.err and "bug in dllint" in result.err

    def test_an_interruption(self, dllint: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def interrupted(*_: object, **__: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(sys.modules["dllint.runner"], "lint_files", interrupted)
        write(project / "a.py", "x = 1\n")
        assert dllint().code == 130


class TestConfiguration:
    def test_a_broken_file_is_told_with_file_and_line(self, dllint: Run, project: Path) -> None:
        write(project / "dllint.toml", "select = ['DL1']\nignroe = []\nfail-on = 1\n")
        write(project / "a.py", BOTH)
        result = dllint()
        assert (result.code, result.out) == (2, "")
        assert result.err.splitlines() == [
            "dllint: error: dllint.toml:2: unknown key `ignroe`; did you mean `ignore`?",
            'dllint: error: dllint.toml:3: `fail-on` must be one of "error", "warning", "info", "never", not 1',
        ]

    def test_selection(self, dllint: Run, project: Path) -> None:
        write(project / "a.py", BOTH + "fussy(1)\n")
        assert dllint("--select", "DL2").lines == ["a.py:2 DL202"]
        assert dllint("--select", "DL2,fussy").lines == ["a.py:2 DL202", "a.py:3 DL110"]
        assert dllint("--select", "DL202", "--select", "correctness").lines == ["a.py:1 DL101", "a.py:2 DL202"]
        assert dllint("--extend-select", "pedantic", "--ignore", "softmax-before-cross-entropy").lines == [
            "a.py:2 DL202",
            "a.py:3 DL110",
        ]

    def test_the_nearest_file_holds_for_each_file(self, dllint: Run, project: Path) -> None:
        write(project / "pyproject.toml", "[tool.dllint]\nselect = ['DL101']\n")
        write(project / "sub" / "dllint.toml", "select = ['DL202']\n")
        for folder in (project, project / "sub", project / "sub" / "deep"):
            write(folder / "a.py", BOTH)
        assert dllint().lines == ["a.py:1 DL101", "sub/a.py:2 DL202", "sub/deep/a.py:2 DL202"]
        assert dllint("--config", "pyproject.toml", "sub").lines == ["sub/a.py:1 DL101", "sub/deep/a.py:1 DL101"]
        assert dllint("--isolated", "sub/a.py").lines == ["sub/a.py:1 DL101", "sub/a.py:2 DL202"]

    def test_a_value_on_the_command_line(self, dllint: Run, project: Path) -> None:
        write(project / "dllint.toml", "select = ['DL101']\n")
        write(project / "a.py", BOTH)
        assert dllint("--config", "select = ['DL202']", "--config", "fail-on = 'error'").code == 0

    def test_severity(self, dllint: Run, project: Path) -> None:
        write(project / "dllint.toml", "[severity]\nsuspicious = 'info'\n")
        write(project / "a.py", "b = nozero(y)\n")
        result = dllint()
        assert result.code == 0 and "info[DL202]" in result.out

    def test_excludes_hold_for_files_named_one_by_one(self, dllint: Run, project: Path) -> None:
        write(project / "dllint.toml", "exclude = ['gen/**']\n")
        write(project / "gen" / "a.py", BOTH)
        result = dllint("gen/a.py")
        assert (result.code, result.out, result.err) == (0, "", "dllint: no files to check\n")
        assert dllint("gen/a.py", "--no-exclude").code == 1

    def test_excludes_of_both_the_outer_and_the_inner_project_hold(self, dllint: Run, project: Path) -> None:
        write(project / "dllint.toml", "exclude = ['sub/out.py']\n")
        write(project / "sub" / "dllint.toml", "exclude = ['in.py']\n")
        for name in ("out.py", "in.py", "a.py"):
            write(project / "sub" / name, BOTH)
        assert {line.partition(":")[0] for line in dllint(".").lines} == {"sub/a.py"}

    def test_per_file_ignores(self, dllint: Run, project: Path) -> None:
        write(project / "dllint.toml", "[per-file-ignores]\n'tests/**' = ['DL1']\n")
        write(project / "tests" / "a.py", BOTH)
        write(project / "b.py", "a = softmax(x)\n")
        assert dllint().lines == ["b.py:1 DL101", "tests/a.py:2 DL202"]
        assert dllint("--per-file-ignores", "tests/**:DL2,b.py:correctness").lines == ["tests/a.py:1 DL101"]

    def test_a_glob_that_matches_nothing_is_told_when_the_whole_project_is_linted(
        self, dllint: Run, project: Path
    ) -> None:
        write(project / "dllint.toml", "[per-file-ignores]\n'tets/**' = ['DL1']\n")
        write(project / "tests" / "a.py", "x = 1\n")
        assert "per-file-ignores: `tets/**` matches no file" in dllint().err
        assert dllint("tests").err == ""
        assert dllint("tests/a.py").err == ""

    @pytest.mark.parametrize("option", ["--select", "--extend-select", "--ignore"])
    def test_an_empty_selection_is_an_error(self, dllint: Run, project: Path, option: str) -> None:
        write(project / "a.py", "softmax(x)\n")
        result = dllint(option, " ,", "a.py")
        assert result.code == 2 and f"{option}: no rule is given" in result.err

    def test_rules_of_the_project(self, dllint: Run, project: Path) -> None:
        write(project / "lints" / "dl901_own.py", RULE)
        write(project / "dllint.toml", "rule-paths = ['lints']\nselect = ['own-rule']\n")
        write(project / "a.py", "x = 1\n")
        assert dllint("a.py").code == 0
        write(project / "lints" / "dl901_own.py", "import nowhere\n")
        registry.load_registry.cache_clear()
        result = dllint("a.py")
        assert result.code == 2 and "dl901_own.py: ModuleNotFoundError" in result.err
        assert "own-rule" in result.err  # which the configuration selects, and which is not there now

    @pytest.mark.parametrize(
        ("paths", "text", "message"),
        [
            ("['lints']", "import nowhere\n", "dl901_own.py: ModuleNotFoundError"),
            ("['lints']", "raise SystemExit(0)\n", "dl901_own.py: SystemExit"),
            ("['lints', 'none']", None, "none: no such rule file or folder"),
            ("['lints']", RULE.replace("DL901", "DL101"), "DL101 is claimed by both Softmax and Own"),
            ("['lints']", RULE.replace("correctness", "bugs"), "Own.category is 'bugs', not one of correctness, "),
            ("['lints']", RULE + "    triggers = ('softmax',)\n", "Own.triggers is not a tuple of tuples of words"),
            ("['lints']", RULE + "    def on_loss(self, event, ctx): ...\n", "Own.on_loss: there is no such event"),
        ],
    )
    def test_a_broken_rule_of_the_project_stops_no_other(
        self, dllint: Run, project: Path, paths: str, text: str | None, message: str
    ) -> None:
        write(project / "lints" / "dl901_own.py", text or RULE)
        write(project / "dllint.toml", f"rule-paths = {paths}\n")
        write(project / "a.py", "softmax(x)\n")
        result = dllint("a.py", "--output-format", "jsonl")
        assert result.code == 2 and message in result.err
        assert [json.loads(line)["code"] for line in result.out.splitlines()] == ["DL101"]
        assert dllint("new", "DL2xx", "some-rule").code == 0

    def test_a_broken_plug_in_is_told(self, dllint: Run, project: Path) -> None:
        write(project / "dllint.toml", "plugins = ['nowhere']\n")
        write(project / "a.py", "softmax(x)\n")
        result = dllint("a.py")
        assert result.code == 2 and "plug-in 'nowhere': not installed" in result.err and "DL101" in result.out


class TestOutput:
    def test_several_reports_at_once(self, dllint: Run, project: Path) -> None:
        write(project / "a.py", BOTH)
        result = dllint("--output-format", "jsonl", "--output", "sarif:out/r.sarif", "--output", "json:r.json")
        assert [json.loads(line)["code"] for line in result.out.splitlines()] == ["DL101", "DL202"]
        assert len(json.loads((project / "out" / "r.sarif").read_text())["runs"][0]["results"]) == 2
        assert json.loads((project / "r.json").read_text())

    def test_machine_formats_are_written_also_when_there_is_nothing_to_check(self, dllint: Run, project: Path) -> None:
        result = dllint("--output-format", "json", "--output", "sarif:r.sarif")
        assert result.code == 0
        json.loads(result.out)
        assert json.loads((project / "r.sarif").read_text())["runs"][0]["results"] == []

    def test_a_report_that_cannot_be_written(self, dllint: Run, project: Path) -> None:
        write(project / "a.py", BOTH)
        write(project / "file", "")
        result = dllint("--output", "json:file/r.json")
        assert result.code == 2 and "file/r.json cannot be written" in result.err

    def test_sarif_describes_the_rules_that_took_part(self, dllint: Run, project: Path) -> None:
        write(project / "a.py", BOTH)
        sarif = json.loads(dllint("--output-format", "sarif", "--select", "DL202").out)
        assert [rule["id"] for rule in sarif["runs"][0]["tool"]["driver"]["rules"]][-1] == "DL202"

    def test_statistics(self, dllint: Run, project: Path) -> None:
        write(project / "a.py", "nozero(1)\n" * 10 + "softmax(1)\n")
        result = dllint("--statistics")
        assert result.code == 1
        assert result.out == "10  DL202  missing-zero-grad\n 1  DL101  softmax-before-cross-entropy\n"

    def test_statistics_for_programs(self, dllint: Run, project: Path) -> None:
        write(project / "a.py", "nozero(1)\nnozero(1)\n")
        result = dllint("--statistics", "--output-format", "json")
        assert json.loads(result.out) == [{"code": "DL202", "name": "missing-zero-grad", "count": 2}]

    def test_timing_goes_to_standard_error(self, dllint: Run, project: Path) -> None:
        write(project / "a.py", "x = 1\n")
        result = dllint("--timing", "--output-format", "json")
        json.loads(result.out)
        assert [line.split() for line in result.err.splitlines()] == [
            ["250.0", "ms", "DL101"],
            ["125.0", "ms", "parse"],
            ["500.0", "ms", "in", "all,", "on", "the", "clock"],
        ]

    def test_colours(self, dllint: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(project / "a.py", BOTH)
        assert "\x1b[" not in dllint().out
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert "\x1b[" in dllint().out
        monkeypatch.setenv("NO_COLOR", "1")
        assert "\x1b[" not in dllint().out


class TestStdin:
    @pytest.fixture(autouse=True)
    def stdin(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.give(BOTH.encode())

    def give(self, data: bytes) -> None:
        self.monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    def test_code_without_a_name(self, dllint: Run) -> None:
        assert dllint("-").lines == ["<stdin>:1 DL101", "<stdin>:2 DL202"]

    def test_a_name_decides_on_configuration_and_ignores(self, dllint: Run, project: Path) -> None:
        write(project / "sub" / "dllint.toml", "exclude = ['no.py']\n[per-file-ignores]\n'a.py' = ['DL101']\n")
        assert dllint("-", "--stdin-filename", "sub/a.py").lines == ["sub/a.py:2 DL202"]
        result = dllint("-", "--stdin-filename", "sub/no.py")
        assert (result.code, result.out) == (0, "")

    def test_a_declared_encoding(self, dllint: Run) -> None:
        self.give("# coding: latin-1\nx = 'é'; softmax(x)\n".encode("latin-1"))
        assert dllint("-").lines == ["<stdin>:2 DL101"]

    def test_what_is_no_text(self, dllint: Run) -> None:
        self.give(b"\xff\xfe\x00")
        result = dllint("-")
        assert result.code == 2 and result.err.startswith("dllint: error: <stdin>: ")


class TestFixing:
    def test_safe_fixes_are_applied_and_the_rest_is_reported(self, dllint: Run, project: Path) -> None:
        path = write(project / "a.py", BOTH)
        result = dllint("--fix")
        assert (result.code, result.lines) == (1, ["a.py:1 DL101"])
        assert path.read_text() == "a = softmax(x)\nb = zero(y)\n"
        assert result.err == "dllint: fixed 1 finding in 1 file\n"

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


class TestSince:
    def test_only_what_has_changed_is_reported_and_fixed(self, dllint: Run, project: Path) -> None:
        shutil.rmtree(project / ".git")
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
        path = write(project / "a.py", "b = nozero(y)\n")
        for arguments in (["init"], ["add", "."], [*identity, "commit", "-m", "base"]):
            subprocess.run(["git", *arguments], check=True, capture_output=True)
        path.write_text("b = nozero(y)\nc = nozero(z)\n")
        write(project / "new.py", "softmax(1)\n")
        assert dllint("--since", "HEAD").lines == ["a.py:2 DL202", "new.py:1 DL101"]
        assert dllint("--since", "HEAD", "--fix").lines == ["new.py:1 DL101"]
        assert path.read_text() == "b = nozero(y)\nc = zero(z)\n"

    def test_a_revision_that_is_not_there(self, dllint: Run, project: Path) -> None:
        write(project / "a.py", "x = 1\n")
        shutil.rmtree(project / ".git")
        subprocess.run(["git", "init"], check=True, capture_output=True)
        result = dllint("--since", "nowhere")
        assert (result.code, result.out) == (2, "") and "nowhere" in result.err


class TestBaseline:
    def test_from_making_it_to_pruning_it(self, dllint: Run, project: Path) -> None:
        path = write(project / "a.py", BOTH)
        made = dllint("baseline")
        assert made.code == 0 and "2 added, 0 removed, 2 in all" in made.err
        known = dllint()
        assert (known.code, known.lines) == (0, [])
        assert "2 in the baseline" in known.out

        path.write_text("\n\nnew = softmax(z)\n" + BOTH)
        assert dllint().lines == ["a.py:3 DL101"]
        assert dllint("baseline", "--check").code == 1
        assert dllint("--isolated").lines == ["a.py:3 DL101", "a.py:4 DL101", "a.py:5 DL202"]

        path.write_text("b = nozero(y)\n")
        stale = dllint()
        assert stale.code == 0 and "1 entry is no longer needed in the baseline" in stale.err
        assert dllint("--strict-baseline").code == 1
        assert dllint("--select", "DL202").err == ""
        assert "0 added, 1 removed, 1 in all" in dllint("baseline", "prune").err
        assert dllint("--strict-baseline").code == 0
        assert dllint("baseline", "--check").code == 0

    def test_prune_takes_nothing_in_and_lets_gone_files_go(self, dllint: Run, project: Path) -> None:
        for name in ("a.py", "b.py"):
            write(project / name, "b = nozero(y)\n")
        dllint("baseline")
        (project / "b.py").unlink()
        write(project / "a.py", BOTH)
        assert "0 added, 1 removed, 1 in all" in dllint("baseline", "prune").err
        assert dllint().lines == ["a.py:1 DL101"]

    def test_an_update_of_a_part_leaves_the_rest_alone(self, dllint: Run, project: Path) -> None:
        for name in ("a.py", "b.py"):
            write(project / name, "b = nozero(y)\n")
        dllint("baseline")
        write(project / "a.py", "x = 1\n")
        assert "0 added, 1 removed, 1 in all" in dllint("baseline", "a.py").err
        assert dllint().code == 0

    def test_a_file_that_cannot_be_read_keeps_its_entries(self, dllint: Run, project: Path) -> None:
        path = write(project / "a.py", "b = nozero(y)\n")
        dllint("baseline")
        path.write_text("def f(:\n")
        result = dllint("--strict-baseline")
        assert (result.code, result.lines, result.err) == (1, ["a.py:1 DL001"], "")
        assert "0 added, 0 removed, 1 in all" in dllint("baseline").err

    def test_a_named_baseline(self, dllint: Run, project: Path) -> None:
        write(project / "a.py", "b = nozero(y)\n")
        assert dllint("baseline", "--baseline", "known.json").code == 0
        assert dllint().code == 1
        assert dllint("--baseline", "known.json").code == 0
        write(project / "dllint.toml", "baseline = 'known.json'\n")
        assert dllint().code == 0
        (project / "known.json").unlink()
        result = dllint()
        assert result.code == 2 and "known.json: No such file" in result.err

    def test_a_problem_while_making_it(self, dllint: Run, project: Path) -> None:
        write(project / "a.py", "b = nozero(y)\n")
        result = dllint("baseline", ".", "nowhere.py")
        assert result.code == 2 and "nowhere.py" in result.err
        assert (project / ".dllint_baseline.json").exists()


class TestOtherCommands:
    def test_rule(self, dllint: Run) -> None:
        page = dllint("rule", "DL101").out
        assert page.startswith("softmax-before-cross-entropy (DL101)\n") and "It hurts." in page
        assert dllint("rule", "softmax-before-cross-entropy").out == page
        assert dllint("rule", "dl101").out == page
        assert dllint("rule", "DL101", "--output-format", "markdown").out.startswith("# softmax-before-cross-entropy")
        record = json.loads(dllint("rule", "DL202", "--output-format", "json").out)
        assert (record["code"], record["fix"], record["default"]) == ("DL202", "safe", True)

    def test_all_rules(self, dllint: Run) -> None:
        codes = [line.partition(" ")[0] for line in dllint("rule", "--all").out.splitlines() if line.startswith("DL")]
        assert codes == ["DL001", "DL002", "DL003", "DL004", "DL005", "DL101", "DL110", "DL202"]
        assert [rule["code"] for rule in json.loads(dllint("rule", "--all", "--output-format", "json").out)] == codes

    def test_an_unknown_rule(self, dllint: Run) -> None:
        assert "did you mean `missing-zero-grad`?" in dllint("rule", "missing-zerograd").err

    def test_config_shows_values_with_file_and_line(self, dllint: Run, project: Path) -> None:
        write(project / "base.toml", "ignore = ['DL004']\ntime-limit = 3\n")
        write(
            project / "pyproject.toml",
            "[project]\ndependencies = ['torch>=2.3']\n[tool.dllint]\nextend = 'base.toml'\nignore = ['DL202']\n"
            "[tool.dllint.per-file-ignores]\n'a.py' = ['DL101']\n",
        )
        write(project / "a.py", "")
        out = dllint("config", "--show", "a.py", "--config", "fail-on = 'error'").out
        rows = {tuple(line.split(maxsplit=2)) for line in out.splitlines() if " = " in line}
        assert ("time-limit", "=", "3  # base.toml:2") in rows
        assert ("ignore", "=", '["DL004"]  # base.toml:1') in rows
        assert ("ignore", "=", '["DL202"]  # pyproject.toml:5') in rows
        assert ('per-file-ignores."a.py"', "=", '["DL101"]  # pyproject.toml:7') in rows
        assert ("fail-on", "=", '"error"  # --config') in rows
        assert ("select", "=", "(not set)  # default") in rows
        assert ("versions.torch", "=", '"2.3"  # found in the project') in rows
        assert out.endswith("\nrules: DL001 DL002 DL003 DL005\n")

    def test_config_lists_and_explains_keys(self, dllint: Run) -> None:
        assert "time-limit = 20\n" in dllint("config").out
        assert dllint("config", "fail-on").out.startswith('fail-on = "warning"\n    The severity')
        assert json.loads(dllint("config", "--schema").out)["title"] == "dllint"

    def test_clean(self, dllint: Run, project: Path) -> None:
        write(project / ".dllint_cache" / "x", "")
        assert "removed" in dllint("clean").err
        assert not (project / ".dllint_cache").exists()
        assert dllint("clean", ".").code == 0

    def test_clean_follows_no_link(self, dllint: Run, project: Path) -> None:
        write(project / "precious" / "x", "")
        (project / ".dllint_cache").symlink_to(project / "precious")
        dllint("clean")
        assert (project / "precious" / "x").exists()

    @pytest.mark.parametrize("shell", ["zsh", "fish"])
    def test_completion(self, dllint: Run, shell: str) -> None:
        result = dllint("completion", shell)
        assert result.code == 0 and "_DLLINT_COMPLETE" in result.out

    def test_completion_for_no_shell(self, dllint: Run) -> None:
        result = dllint("completion")
        assert result.code == 2 and "Choose from: bash, zsh, fish, powershell\n" in result.err

    def test_new(self, dllint: Run, project: Path) -> None:
        result = dllint("new", "DL1xx", "some-bad-thing")
        rule = project / "rules" / "loss" / "dl102_some_bad_thing.py"
        assert (result.code, result.err.splitlines()[0]) == (0, f"dllint: wrote {rule.relative_to(project)}")
        compile(rule.read_text(), rule, "exec")
        assert 'code = "DL102"' in rule.read_text() and "class SomeBadThing(Rule)" in rule.read_text()
        assert "# DL102" in (project / "fixtures" / "loss" / rule.name).read_text()
        assert "cannot be written: File exists" in dllint("new", "DL102", "some-bad-thing").err

    @pytest.mark.parametrize(
        "arguments", [["DL101", "new-name"], ["DL120", "missing-zero-grad"], ["DL120", "New_Name"], ["X", "new-name"]]
    )
    def test_new_refuses(self, dllint: Run, project: Path, arguments: list[str]) -> None:
        assert dllint("new", *arguments).code == 2
        assert not (project / "rules").exists()

    @pytest.mark.parametrize(
        "words", [[], ["check"], ["baseline"], ["baseline", "prune"], ["rule"], ["config"], ["new"]]
    )
    def test_help(self, dllint: Run, words: list[str]) -> None:
        for option in ("-h", "--help"):
            result = dllint(*words, option)
            assert result.code == 0 and result.out.startswith(f"Usage: {' '.join(['dllint', *words])}")

    def test_a_folder_with_the_name_of_a_command(self, dllint: Run, project: Path) -> None:
        write(project / "new" / "a.py", BOTH)
        assert len(dllint("./new").lines) == 2
        assert len(dllint("check", "new").lines) == 2
