"""The format SARIF, on the realistic report: it keeps to the schema, and has places, traces, fixes and problems."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import jsonschema
import pytest
from example_report import MODEL, TRAIN_TEXT, example_report, written

from dllint.findings import Held, Location, Report
from dllint.rule import address_of

# Version 2.1.0 of the OASIS standard, as published at
# https://raw.githubusercontent.com/oasis-tcs/sarif-spec/master/Schemata/sarif-schema-2.1.0.json
SARIF_SCHEMA = Path(__file__).parent / "data" / "sarif-2.1.0.json"


@pytest.fixture
def report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Report:
    monkeypatch.chdir(tmp_path)
    return example_report()


def test_other_places_in_sarif_are_related_locations(report: Report) -> None:
    softmax = replace(report.findings[2], others=(Location("gone.py", 7, 1, 7, 9), Location("nb.ipynb", 1, 1, 1, 5, 3)))
    log = json.loads(written(Report([softmax], files=1), "sarif"))
    jsonschema.Draft7Validator(json.loads(SARIF_SCHEMA.read_text(encoding="utf-8"))).validate(log)
    related = log["runs"][0]["results"][0]["relatedLocations"]
    assert [place["id"] for place in related] == [1, 2, 3, 4]
    assert [place["message"]["text"] for place in related[2:]] == ["More like this."] * 2
    assert related[2]["physicalLocation"]["region"]["startLine"] == 7


@pytest.fixture
def sarif(report: Report) -> dict[str, Any]:
    log = json.loads(written(report, "sarif"))
    schema = json.loads(SARIF_SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft7Validator(schema).validate(log)
    [run] = log["runs"]
    return dict(run)


def test_sarif_schema_rejects_what_is_wrong(report: Report) -> None:
    log = json.loads(written(report, "sarif"))
    log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
    schema = json.loads(SARIF_SCHEMA.read_text(encoding="utf-8"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft7Validator(schema).validate(log)


def test_sarif_rules_and_results_refer_to_each_other(sarif: dict[str, Any]) -> None:
    rules = sarif["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == sorted({rule["id"] for rule in rules})
    for result in sarif["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    unused = next(rule for rule in rules if rule["id"] == "DL004")
    assert unused["name"] == "unused-suppression"
    assert unused["shortDescription"]["text"] == "A suppression comment that suppresses nothing."
    assert unused["help"]["markdown"].startswith("A suppression comment that suppresses nothing.\n\nThe bug")
    assert unused["properties"] == {
        "tags": ["suspicious", "deep-learning"], "precision": "high", "problem.severity": "warning",
    }  # fmt: skip


def test_sarif_places(sarif: dict[str, Any], tmp_path: Path) -> None:
    assert sarif["columnKind"] == "unicodeCodePoints"
    assert sarif["originalUriBaseIds"]["SRCROOT"]["uri"] == tmp_path.as_uri() + "/"
    result = sarif["results"][2]
    [place] = result["locations"]
    assert place["logicalLocations"] == [{"fullyQualifiedName": "Trainer.fit"}]
    assert place["physicalLocation"] == {
        "artifactLocation": {"uri": "src/train.py", "uriBaseId": "SRCROOT"},
        "region": {"startLine": 3, "startColumn": 12, "endLine": 3, "endColumn": 32},
    }
    flow = result["codeFlows"][0]["threadFlows"][0]["locations"]
    assert [hop["location"]["message"]["text"] for hop in flow] == ["Softmax is applied here.", "The loss receives it."]
    uri = flow[0]["location"]["physicalLocation"]["artifactLocation"]["uri"]
    assert re.fullmatch(r"[A-Za-z0-9._~/%-]+", uri)
    assert unquote(uri) == MODEL
    assert [place["id"] for place in result["relatedLocations"]] == [1, 2]
    assert result["message"]["text"].endswith("log-softmax. The loss still falls, but not to zero. Return the scores.")


def test_sarif_fix_and_fingerprints(sarif: dict[str, Any], report: Report) -> None:
    _, likely, certain = sarif["results"]
    assert likely["level"] == "note"
    [fix] = likely["fixes"]
    [replacement] = fix["artifactChanges"][0]["replacements"]
    region = replacement["deletedRegion"]
    line = TRAIN_TEXT.splitlines()[region["startLine"] - 1]
    assert line[region["startColumn"] - 1 : region["endColumn"] - 1] == "Adam"
    assert replacement["insertedContent"] == {"text": "AdamW"}
    assert fix["description"]["text"] == "Use `AdamW` (unsafe)"
    marks = [record["fingerprint"] for record in json.loads(written(report, "json"))[:3]]
    assert [result["partialFingerprints"] for result in sarif["results"]] == [
        {"dllintFingerprint/v1": mark} for mark in marks
    ]
    assert certain["properties"] == {"confidence": "certain", "confirmable": False}


def test_sarif_tells_of_problems(sarif: dict[str, Any]) -> None:
    [invocation] = sarif["invocations"]
    assert invocation["executionSuccessful"] is False
    [execution] = invocation["toolExecutionNotifications"]
    assert execution["message"]["text"] == "No such file."
    assert execution["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "gone.py"
    [configuration] = invocation["toolConfigurationNotifications"]
    assert configuration["descriptor"] == {"id": "config"}


def test_sarif_marks_what_is_suppressed(report: Report) -> None:
    held = [Held(report.findings.pop(1), "comment", "as in the paper"), Held(report.findings.pop(1), "baseline")]
    log = json.loads(written(replace(report, held=held), "sarif"))
    jsonschema.Draft7Validator(json.loads(SARIF_SCHEMA.read_text(encoding="utf-8"))).validate(log)
    assert [result.get("suppressions") for result in log["runs"][0]["results"]] == [
        None,
        [{"kind": "inSource", "status": "accepted", "justification": "as in the paper"}],
        [{"kind": "external", "status": "accepted"}],
    ]


def test_links_come_with_the_address_of_the_documentation(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "helpUri" not in written(report, "sarif"), "without an address there are no links"
    monkeypatch.setattr("dllint.rule.SITE", "https://example.com/dllint/")
    assert address_of("DL101") == "https://example.com/dllint/rules/DL101/"
    rules = {rule["id"]: rule for rule in json.loads(written(report, "sarif"))["runs"][0]["tool"]["driver"]["rules"]}
    assert rules["DL004"]["helpUri"] == "https://example.com/dllint/rules/DL004/"


def test_sentences_of_sarif_begin_with_capitals(sarif: dict[str, Any]) -> None:
    texts = [result["message"]["text"] for result in sarif["results"]]
    texts += [rule[key]["text"] for rule in sarif["tool"]["driver"]["rules"] for key in ("help", "shortDescription")]
    assert len(texts) > 10
    assert [text for text in texts if text[0].islower()] == []
    assert [text for text in texts if re.search(r"\. [a-z]", text)] == []


def test_notebook_places_are_lines_of_its_json(report: Report, sarif: dict[str, Any]) -> None:
    region = sarif["results"][0]["locations"][0]["physicalLocation"]["region"]
    raw = Path("nb.ipynb").read_text(encoding="utf-8").splitlines()
    assert raw[region["startLine"] - 1].strip() == '"scheduler.step()  # \\"first\\"\\n",'
    assert region == {"startLine": region["startLine"], "endLine": region["startLine"]}
    assert sarif["results"][0]["properties"]["cellLine"] == 1
    assert json.loads(written(report, "gitlab"))[0]["location"]["lines"]["begin"] == region["startLine"]
