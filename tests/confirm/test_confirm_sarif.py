"""Verdicts as SARIF, which the schema of the standard accepts."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
from confirm_support import SCRIPTS
from test_confirm_verdicts import finding, judgement, record

from dllint.assumptions import Assumption
from dllint.cli import main
from dllint.confirm.documents import as_sarif
from dllint.confirm.evidence import Judgement
from dllint.confirm.launch import Outcome
from dllint.confirm.verdicts import settle
from dllint.registry import load_rules

SCHEMA = Path(__file__).parents[1] / "data" / "sarif-2.1.0.json"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("import torch\n" * 100)
    return tmp_path


def test_each_verdict_is_a_result(folder: Path) -> None:
    observed = record(
        judgement(line=10, statistics={"low": float("nan"), "sampled": 5}),
        judgement(line=20, verdict="REFUTED"),
        judgement("DL202", line=50, voice="alarm"),
        judgement("input-range", line=60, voice="note"),
        Judgement("scale-collapse", "scaling", "CONFIRMED", "numbers", "threshold", voice="alarm"),
        Judgement("overfit-one-batch", "overfit", "REFUTED", "it fell", "threshold", voice="alarm"),
    )
    assumptions = (Assumption("name", "x is y"),)
    likely = finding(line=10, confidence="likely", assumptions=assumptions)
    verdicts = settle([likely, finding(line=20), finding("DL413", line=30)], [observed])
    text = as_sarif(verdicts, Outcome(["python", "train.py"], [observed]), load_rules(), folder)
    log = json.loads(text)
    jsonschema.Draft7Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).validate(log)
    (run,) = log["runs"]
    rows = [
        (item["ruleId"], item["properties"]["verdict"], item.get("kind", "fail"), item["level"],
         item["locations"][0]["physicalLocation"]["region"]["startLine"])
        for item in run["results"]
    ]  # fmt: skip
    assert rows == [
        ("DL101", "CONFIRMED", "fail", "error", 10),
        ("DL101", "REFUTED", "pass", "none", 20),
        ("DL413", "NOT TESTABLE", "fail", "error", 30),
        ("DL202", "ALARM", "fail", "error", 50),
        ("scale-collapse", "ALARM", "fail", "error", 1),
        ("overfit-one-batch", "REFUTED", "pass", "none", 1),
        ("input-range", "NOTE", "fail", "note", 60),
    ]
    confirmed = run["results"][0]
    assert confirmed["properties"]["statistics"] == {"low": None, "sampled": 5}
    assert confirmed["properties"]["confidence"] == "certain"
    assert confirmed["properties"]["premise"] == "settled: x is y"
    assert confirmed["codeFlows"][0]["threadFlows"][0]["locations"][-1]["location"]["message"]["text"].startswith(
        "A run confirms it"
    )
    artifact = run["results"][3]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact == {"uri": "train.py", "uriBaseId": "SRCROOT"}


@pytest.mark.slow
def test_as_an_option_beside_a_resume_check(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = ["--quiet", "--steps", "12", "--sarif", "out.sarif", "--resume-check", str(SCRIPTS / "resuming.py")]
    assert main(["confirm", *words, "--", "weights"]) == 1
    assert "FAILED       resume-check: the second run continues with the weights after" in capfd.readouterr().out
    results = json.loads(Path("out.sarif").read_text())["runs"][0]["results"]
    assert ("resume-check", "CONFIRMED") in {(item["ruleId"], item["properties"]["verdict"]) for item in results}
    assert not Path("last.pt").exists()
