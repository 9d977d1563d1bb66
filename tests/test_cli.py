"""The command line in this process: exit codes and configuration."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from cli_support import BOTH, Run, write

from dllint import registry

RULE = """\
\"""Ours.\"""
from dllint.rule import Rule

class Own(Rule):
    code = "DL901"
    name = "own-rule"
    category = "correctness"
"""


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
        result = dllint("--select", "ALL", "--notes")
        assert (result.code, result.lines) == (0, ["a.py:1 DL110"])
        assert dllint("--select", "ALL", "--fail-on", "info").lines == ["a.py:1 DL110"]

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
        assert dllint("--select", "DL2,fussy", "--notes").lines == ["a.py:2 DL202", "a.py:3 DL110"]
        assert dllint("--select", "DL202", "--select", "correctness").lines == ["a.py:1 DL101", "a.py:2 DL202"]
        assert dllint("--extend-select", "pedantic", "--ignore", "softmax-before-cross-entropy", "--notes").lines == [
            "a.py:2 DL202",
            "a.py:3 DL110",
        ]

    def test_the_nearest_file_holds_for_each_file(self, dllint: Run, project: Path) -> None:
        write(project / "pyproject.toml", "[tool.dllint]\nselect = ['DL101']\n")
        write(project / "sub" / "dllint.toml", "select = ['DL202']\n")
        for folder in (project, project / "sub", project / "sub" / "deep"):
            write(folder / "a.py", f"{BOTH}# {folder.name}\n")  # no copies
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
        assert (result.code, result.out) == (0, "Found nothing in 1 file; 1 note (--notes shows it)\n")
        assert "info[DL202]" in dllint("--notes").out

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

    def test_per_file_ignores_of_the_command_line_start_from_the_working_directory(
        self, dllint: Run, project: Path
    ) -> None:
        shutil.rmtree(project / ".git")  # each folder that is named is a project by itself
        for name, text in {"lab/a.py": "a = softmax(1)\n", "lab/deep/a.py": "softmax(2)\n"}.items():
            write(project / name, text)
        everything = ["lab/a.py:1 DL101", "lab/deep/a.py:1 DL101"]
        for glob, expected in {
            "lab/a.py": everything[1:],
            "lab/**": [],
            "l*/deep/": everything[:1],
            "!lab/**": everything,
            "a.py": [],
            "deep/a.py": everything,
        }.items():
            assert dllint("lab", "--per-file-ignores", f"{glob}:DL101").lines == expected, glob
        assert dllint("lab/a.py", "--per-file-ignores", "lab/a.py:DL101").lines == []

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
