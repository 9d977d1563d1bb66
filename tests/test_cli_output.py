"""The command line in this process: what it prints, what it reads from its input, and its other commands."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from cli_support import BOTH, Run, write

from dllint.assumptions import KINDS
from dllint.cli.outcome import note_timing
from dllint.findings import Report


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

    def test_timing_of_a_cached_run_says_so(self, capsys: pytest.CaptureFixture[str]) -> None:
        note_timing(Report(files=3, cached=2, seconds=0.5))
        assert "results of 2 files come from the cache, for which no rule ran" in capsys.readouterr().err
        note_timing(Report(files=3, seconds=0.5))
        assert "cache" not in capsys.readouterr().err

    def test_colors(self, dllint: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


class TestOtherCommands:
    def test_rule(self, dllint: Run) -> None:
        page = dllint("rule", "DL101").out
        assert page.startswith("softmax-before-cross-entropy (DL101)\n") and "It hurts." in page
        assert dllint("rule", "softmax-before-cross-entropy").out == page
        assert dllint("rule", "dl101").out == page
        kinds = [line.split()[1:3] for line in page.splitlines() if line.startswith("- ")]
        assert [kind for kind, _ in kinds] == list(KINDS) and ["default", "(likely):"] in kinds
        assert dllint("rule", "DL101", "--output-format", "markdown").out.startswith("# softmax-before-cross-entropy")
        record = json.loads(dllint("rule", "DL202", "--output-format", "json").out)
        assert (record["code"], record["fix"], record["default"]) == ("DL202", "safe", True)

    def test_all_rules(self, dllint: Run) -> None:
        static, _, observed = dllint("rule", "--all").out.partition("What `dllint confirm` alone can show:\n")
        codes = [line.partition(" ")[0] for line in static.splitlines() if line.startswith("DL")]
        assert codes == ["DL001", "DL002", "DL003", "DL004", "DL005", "DL006", "DL101", "DL110", "DL202"]
        records = json.loads(dllint("rule", "--all", "--output-format", "json").out)
        assert [record["code"] for record in records if record["static"]] == codes
        assert "DL220  spectral-norm-evaluated-first" in observed and "DL110" not in observed

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
        assert out.endswith("\nrules: DL001 DL002 DL003 DL005 DL006\n")

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
