"""Possible findings and notes: kept, not reported unless asked for, and never in the way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dllint import registry, tiers
from dllint.cli import main
from dllint.config.load import ConfigLoader
from dllint.config.resolve import resolve
from dllint.confirm.evidence import Judgement, Line, Record
from dllint.confirm.launch import Outcome
from dllint.findings import Finding
from dllint.runner import lint_files
from dllint.server.session import Session

RULE = '''
from dllint.api import Assumption, LossCall, Rule

class Doubtful(Rule):
    """A loss that may be wrong."""

    code = "DL101"
    name = "doubtful-loss"
    category = "correctness"
    triggers = (("cross_entropy", "mse_loss", "l1_loss"),)
    confirmable = True

    def on_loss_call(self, event: LossCall, ctx):
        name = event.loss.rpartition(".")[2]
        assumes = {
            "cross_entropy": [Assumption("opaque", "`prepare` leaves the scores alone")],
            "mse_loss": [Assumption("default", "`--loss` is `mse`, as by default")],
        }
        yield ctx.finding(self, event, f"`{name}` may be wrong", assuming=assumes.get(name, []),
                          severity="info" if name == "l1_loss" else None)
'''
POSSIBLE, LIKELY, NOTE = (f"print(F.{name}(x, y)){{0}}\n" for name in ("cross_entropy", "mse_loss", "l1_loss"))
HEAD = "import torch.nn.functional as F\n\n"
BOTH = HEAD + POSSIBLE.format("") + LIKELY.format("")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tiers, "reliable_kinds", lambda: frozenset({"default"}))
    monkeypatch.setattr(registry, "builtin_directory", lambda: tmp_path / "rules")
    registry.load_registry.cache_clear()
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "dl101_doubtful.py").write_text(RULE)
    (tmp_path / "dllint.toml").write_text("exclude = ['rules']\nextend-select = ['DL004']\n")
    (tmp_path / "train.py").write_text(BOTH)
    yield tmp_path
    registry.load_registry.cache_clear()


def check(capsys: pytest.CaptureFixture[str], *words: str, command: str = "check") -> tuple[int, str]:
    code = main([command, *words, "train.py"])
    return code, capsys.readouterr().out


def records(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(check(capsys, "--output-format", "json", *words)[1])
    return found


def test_questions_are_kept_and_not_reported(project: Path) -> None:
    settings = resolve(ConfigLoader().load(project))
    for _ in range(2):  # the second time from the cache
        report = lint_files([project / "train.py"], settings)
        assert [finding.confidence for finding in report.findings] == ["likely"]
        assert [finding.assumptions[0].kind for finding in report.questions] == ["opaque"]
    report = lint_files([project / "train.py"], replace(settings, confidence="possible"))
    assert [finding.confidence for finding in report.findings] == ["possible", "likely"]
    assert report.questions == []


def test_they_are_shown_on_request(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [record["line"] for record in records(capsys)] == [4]
    shown = records(capsys, "--possible")
    assert [(record["confidence"], record["assumptions"]) for record in shown] == [
        ("possible", [{"kind": "opaque", "text": "`prepare` leaves the scores alone"}]),
        ("likely", [{"kind": "default", "text": "`--loss` is `mse`, as by default"}]),
    ]
    assert [record["line"] for record in records(capsys, "--config", "possible = true")] == [3, 4]


def test_they_do_not_make_the_exit_code_one(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "train.py").write_text(HEAD + POSSIBLE.format(""))
    assert check(capsys) == (0, "Found nothing in 1 file\n")
    code, out = check(capsys, "--possible")
    assert (code, out.splitlines()[0]) == (
        0,
        "train.py:3:7: error[DL101] doubtful-loss: `cross_entropy` may be wrong "
        "(possible, assuming `prepare` leaves the scores alone)",
    )


def test_a_suppression_of_a_question_is_of_use(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = HEAD + POSSIBLE.format("  # dllint: ignore[DL101] -- {0}")
    (project / "train.py").write_text(text)
    assert records(capsys) == []
    (project / "train.py").write_text(HEAD + "loss = x  # dllint: ignore[DL101]\n")
    assert [record["code"] for record in records(capsys, "--notes")] == ["DL004"]


def test_a_baseline_holds_what_is_reported(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def entries() -> int:
        return len(json.loads((project / ".dllint_baseline.json").read_text())["findings"])

    main(["baseline", "train.py"])
    assert entries() == 1
    assert records(capsys) == []
    assert [record["line"] for record in records(capsys, "--possible")] == [3]
    main(["baseline", "--config", "possible = true", "train.py"])
    assert entries() == 2
    assert records(capsys, "--possible") == []
    assert main(["check", "--strict-baseline", "train.py"]) == 0  # what it holds is not gone
    main(["baseline", "prune", "train.py"])
    assert entries() == 2


def test_notes_are_counted(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "train.py").write_text(HEAD + NOTE.format("") + LIKELY.format("") + "if z:\n    " + NOTE.format(""))
    code, out = check(capsys)
    assert "Found 1 error in 1 file; 2 notes (--notes shows them)" in out
    assert code == 1 and "info[" not in out
    assert [record["severity"] for record in records(capsys)] == ["info", "error", "info"]
    for words in (["--notes"], ["--fail-on", "info"], ["--config", "notes = true"]):
        out = check(capsys, *words)[1]
        assert out.count("info[DL101]") == 2
        assert "Found 1 error, 2 notes in 1 file" in out


@pytest.mark.parametrize(("fmt", "shown"), [("sarif", 1), ("jsonl", 1), ("gitlab", 0), ("github", 0), ("junit", 0)])
def test_formats_for_programs_that_know_levels_have_notes(
    fmt: str, shown: int, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "train.py").write_text(HEAD + NOTE.format(""))
    code, out = check(capsys, "--output-format", fmt)
    assert code == 0
    assert out.count("`l1_loss` may be wrong") == shown
    if fmt == "sarif":
        assert json.loads(out)["runs"][0]["results"][0]["level"] == "note"


def test_one_cause_is_shown_once_and_suppressed_place_by_place(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arms = "if z:\n    " + LIKELY + "else:\n    " + LIKELY
    (project / "train.py").write_text(HEAD + arms.format(""))
    (record,) = records(capsys)
    assert (record["line"], [other["line"] for other in record["others"]]) == (4, [6])
    assert "; and 1 more like this)\n" in check(capsys)[1]
    (project / "train.py").write_text((HEAD + arms).replace("{0}", "  # dllint: ignore[DL101]", 1).format(""))
    (record,) = records(capsys)
    assert (record["line"], record["others"]) == (6, [])
    (project / "train.py").write_text(HEAD + arms.format(""))
    main(["baseline", "train.py"])
    assert len(json.loads((project / ".dllint_baseline.json").read_text())["findings"]) == 2


@pytest.mark.parametrize(("verdict", "lines"), [("CONFIRMED", [3, 4]), ("REFUTED", [4]), ("INCONCLUSIVE", [4])])
def test_a_run_answers_questions(
    verdict: str, lines: list[int], project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    stacks = ((Line(str(project / "train.py"), 3, "<module>"),),)
    judged = Judgement("DL101", "probe", verdict, "numbers", "threshold", stacks=stacks)  # type: ignore[arg-type]
    run = Outcome(["train.py"], [Record(1, 0, "observe", "2.13", "cpu", "end", judgements=[judged])])
    monkeypatch.setattr("dllint.confirm.launch.run", lambda *_, **__: run)
    shown = records(capsys, "--confirm", "train.py")
    assert [record["line"] for record in shown] == lines
    if verdict == "CONFIRMED":
        assert (shown[0]["confidence"], shown[0]["assumptions"]) == ("certain", [])
        settled = "a run confirms it: numbers (settled: `prepare` leaves the scores alone)"
        assert shown[0]["trace"][-1]["message"] == settled
    main(["confirm", "train.py"])
    out = capsys.readouterr().out
    told, _, asked = out.partition("The linter asked 1 more question")
    answers = ["CONFIRMED", "NOT REACHED"] if verdict == "CONFIRMED" else ["NOT REACHED"]
    assert [line[:12].strip() for line in told.splitlines() if "DL101" in line] == answers
    assert (f"{verdict:12} DL101" in asked) is (verdict != "CONFIRMED")
    main(["confirm", "--possible", "train.py"])
    assert f"{verdict:12} DL101 train.py:3 doubtful-loss: numbers" in capsys.readouterr().out


def test_an_editor_shows_each_place_and_questions_on_request(project: Path) -> None:
    settings = resolve(ConfigLoader().load(project))
    (project / "train.py").write_text(BOTH + "if z:\n    " + LIKELY.format("") + "else:\n    " + LIKELY.format(""))

    def lines(**changes: str) -> list[int]:
        session = Session(replace(settings, **changes), project)
        path = project / "train.py"
        shown: dict[Path, list[Finding]] = {}
        for file, result in session.check({path: path.read_text()}, [path], lambda: False):
            shown[file] = result.findings
        return [finding.location.line for finding in shown[path]]

    assert lines() == [4, 6, 8]
    assert lines(confidence="possible") == [3, 4, 6, 8]
