"""Joining findings with what a run has shown."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from dllint.assumptions import Assumption
from dllint.confirm.documents import as_json
from dllint.confirm.evidence import Judgement, Line, Record, Sight
from dllint.confirm.launch import Outcome
from dllint.confirm.rules import judged
from dllint.confirm.terminal import render, sparkline
from dllint.confirm.verdicts import set_questions_aside, settle, upheld
from dllint.findings import Finding, Hop, Location
from dllint.registry import load_rules

SCHEMA = Path(__file__).parents[2] / "docs" / "confirm.schema.json"


def finding(code: str = "DL101", line: int = 10, **more: Any) -> Finding:
    return Finding(code, "a-rule", "message", Location("train.py", line, 1, line, 9), "error", "correctness", **more)


def judgement(code: str = "DL101", line: int = 10, verdict: str = "CONFIRMED", **more: Any) -> Judgement:
    frame = Line(os.path.abspath("train.py"), line, more.pop("function", "train"))
    return Judgement(code, "probe", verdict, "numbers", "threshold", stacks=((frame,),), **more)  # type: ignore[arg-type]


def record(*judgements: Judgement) -> Record:
    return Record(1, 0, "observe", "2.13", "cpu", "end", judgements=list(judgements))


def answers(findings: list[Finding], *judgements: Judgement) -> list[str]:
    return [item.answer for item in settle(findings, [record(*judgements)]).settled]


def test_a_judgement_at_the_line_decides() -> None:
    found = [finding(line=10), finding(line=20), finding(line=30)]
    assert answers(found, judgement(line=10), judgement(line=20, verdict="REFUTED")) == [
        "CONFIRMED",
        "REFUTED",
        "NOT REACHED",
    ]


def test_one_confirmation_outweighs_refutations() -> None:
    assert answers([finding()], judgement(verdict="REFUTED", events=9), judgement()) == ["CONFIRMED"]


def test_a_place_on_the_way_counts() -> None:
    hop = Hop(Location("train.py", 40, 1, 42, 1), "computed here")
    assert answers([finding(line=10, trace=(hop,))], judgement(line=41)) == ["CONFIRMED"]


def test_another_line_of_the_function_counts_for_rules_about_optimizers_only() -> None:
    assert answers([finding("DL202", scope="Trainer.train")], judgement("DL202", line=13)) == ["CONFIRMED"]
    assert answers([finding("DL701", line=8, scope="train")], judgement("DL701", line=13)) == ["CONFIRMED"]
    assert answers([finding("DL101", scope="Trainer.train")], judgement("DL101", line=13)) == ["NOT REACHED"]


def test_two_candidates_in_the_function_decide_nothing() -> None:
    both = judgement("DL202", line=13), judgement("DL202", line=17, verdict="REFUTED")
    assert answers([finding("DL202", scope="train")], *both) == ["NOT REACHED"]


def test_a_judgement_of_the_whole_run_decides() -> None:
    whole = Judgement("DL306", "coverage", "REFUTED", "numbers", "threshold")
    assert answers([finding("DL306")], whole) == ["REFUTED"]


def test_a_judgement_in_a_library_decides_where_there_is_no_closer_one() -> None:
    hidden = Judgement("DL202", "gradients", "CONFIRMED", "numbers", "threshold", stacks=((),))
    assert answers([finding("DL202", scope="train")], hidden) == ["CONFIRMED"]
    assert answers([finding("DL202", scope="train")], hidden, judgement("DL202", verdict="REFUTED")) == ["REFUTED"]
    assert answers([finding("DL101", scope="train")], Judgement("DL101", "p", "REFUTED", "n", "t", stacks=((),))) == [
        "NOT REACHED"
    ]


def test_a_rule_without_probe_cannot_be_tested() -> None:
    assert answers([finding("DL413")]) == ["NOT TESTABLE"]
    assert answers([finding(beside_probe=True)], judgement(verdict="REFUTED")) == ["NOT TESTABLE"]


def test_what_no_finding_is_about_raises_an_alarm() -> None:
    verdicts = settle(
        [finding(line=10)],
        [
            record(
                judgement(line=10, voice="alarm"),
                judgement(line=50, voice="alarm"),
                judgement(line=60, voice="note"),
                judgement(line=70, voice="alarm", verdict="INCONCLUSIVE"),
                judgement(line=80),
            )
        ],
    )
    assert [item.stacks[0][0].line for item in verdicts.alarms] == [50]
    assert [item.stacks[0][0].line for item in verdicts.notes] == [60]
    assert verdicts.confirmed == 2


def test_ranks_that_agree_raise_one_alarm() -> None:
    records = [record(judgement(line=50, voice="alarm")) for _ in range(2)]
    assert len(settle([], records).alarms) == 1


def test_refuted_findings_are_dropped_and_confirmed_ones_are_certain() -> None:
    found = [finding(line=10, confidence="likely"), finding(line=20), finding(line=30, confidence="likely")]
    kept = upheld(settle(found, [record(judgement(line=10), judgement(line=20, verdict="REFUTED"))]))
    assert [(item.location.line, item.confidence) for item in kept] == [(10, "certain"), (30, "likely")]
    assert kept[0].trace[-1].message == "a run confirms it: numbers"


def test_verdicts_say_what_was_assumed() -> None:
    assumes = {"assumptions": (Assumption("opaque", "`criterion` is `CrossEntropyLoss`"), Assumption("name", "x is y"))}
    found = [finding(line=line, confidence="likely", **assumes) for line in (10, 20, 30)]
    verdicts = settle(found, [record(judgement(line=10), judgement(line=20, verdict="REFUTED"))])
    both = "`criterion` is `CrossEntropyLoss`; x is y"
    premises = [f"settled: {both}", f"it rested on: {both}", f"assuming: {both}"]
    assert [item.premise for item in verdicts.settled] == premises
    lines = render(verdicts, [], color=False).splitlines()
    assert lines[0].endswith(f"({premises[0]})")
    answers = ["which one" not in line and "? open: " in line for line in lines[1:7]]
    assert answers == [False, True, True, False, True, True]  # each of the other two with what it assumes
    told = json.loads(as_json(verdicts, Outcome(["train.py"], [])))["verdicts"]
    assert [item["premise"] for item in told] == premises
    assert told[0]["assumptions"][0] == {"kind": "opaque", "text": "`criterion` is `CrossEntropyLoss`"}
    (kept, *_) = upheld(verdicts)
    assert (kept.confidence, kept.assumptions) == ("certain", ())
    assert kept.trace[-1].message == f"a run confirms it: numbers (settled: {both})"


def asked(asks: str, line: int = 10, kind: Any = "alternative", **more: Any) -> Finding:
    return finding(line=line, assumptions=(Assumption(kind, "it is so", asks=asks),), **more)


@pytest.mark.parametrize(
    ("about", "stop", "answer", "why"),
    [
        (asked("reached"), "end", "yes", "line 10 was reached"),
        (
            asked("reached", 11, scope="train"),
            "end",
            "no",
            "nothing was seen at line 11, though code around it was run",
        ),
        (asked("reached", 11, scope="train"), "budget", "open", "but the run was ended early"),
        (asked("reached", 11, scope="evaluate"), "end", "open", "nothing that is observed happened there"),
        (asked("reached", 11, "entry", scope="train"), "end", "open", "nothing that is observed happened there"),
        (asked("CrossEntropyLoss"), "end", "yes", "`CrossEntropyLoss` was seen there"),
        (asked("MSELoss"), "end", "no", "`cross_entropy` was seen there"),
        (asked("Net"), "end", "yes", "`Net` was seen there"),
        (asked("Encoder"), "end", "no", "`Net` was seen there"),
        (asked("Encoder", 99), "end", "open", "does not show in a run"),
        (asked("batches", 20), "end", "yes", "batches were taken from it"),
        (asked("batches", 30), "end", "no", "no batch was taken from it"),
        (asked("batches", 30), "time", "open", "but the run was ended early"),
        (asked("batches", 10), "end", "open", "no loader was made there"),
        (asked("", kind="opaque"), "end", "open", "what that code does to it is not observed"),
    ],
)
def test_assumptions_are_answered_before_the_claim(about: Finding, stop: str, answer: str, why: str) -> None:
    def sight(line: int, *things: str) -> Sight:
        return Sight(Line(os.path.abspath("train.py"), line, "train"), list(things))

    observed = record(judgement(line=10, verdict="REFUTED"))
    observed.stop = stop
    observed.seen = [sight(10, "loss cross_entropy", "model Net"), sight(20, "batches", "loader"), sight(30, "loader")]
    verdicts = settle([about], [observed])
    (answered,) = verdicts.settled[0].answers
    assert (answered.answer, why in answered.why) == (answer, True), answered
    assert f"it is so? {answer}: {answered.why}" in render(verdicts, [], color=False)
    told = json.loads(as_json(verdicts, Outcome(["train.py"], [])))["verdicts"][0]
    assert told["answers"] == [{"about": "it is so", "answer": answer, "why": answered.why}]


def test_a_confirmed_claim_needs_no_answers() -> None:
    verdicts = settle([asked("reached")], [record(judgement())])
    assert verdicts.settled[0].answers == ()
    assert "(settled: it is so)" in render(verdicts, [], color=False)


def test_questions_are_shown_where_the_run_says_yes() -> None:
    asked = [finding(line=line, confidence="possible") for line in (10, 20, 30)]
    observed = [record(judgement(line=10), judgement(line=20, verdict="REFUTED", voice="alarm"))]
    verdicts = settle([finding(line=5)], observed, asked)
    assert verdicts.alarms == []
    assert [item.finding.location.line for item in verdicts.settled] == [5, 10, 20, 30]
    assert [item.location.line for item in upheld(verdicts)] == [5, 10]
    set_questions_aside(verdicts)
    assert [item.finding.location.line for item in verdicts.settled] == [5, 10]
    assert [item.finding.location.line for item in verdicts.questions] == [20, 30]
    told = render(verdicts, [], color=False)
    assert "The linter asked 2 more questions" in told
    assert told.index("REFUTED      DL101 train.py:20") > told.index("CONFIRMED    DL101 train.py:10")


def test_rules_that_a_run_can_decide_say_so() -> None:
    confirmable = {rule.code for rule in load_rules() if rule.confirmable}
    assert confirmable <= {code for code, known in judged().items() if known.unreached}


@pytest.mark.parametrize(
    ("values", "picture"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7], "▁▂▃▄▅▆▇█"),
        ([1, 1], "▁▁"),
        ([1, float("nan"), 2], "▁?█"),
        ([float("inf")], "?"),
        ([], ""),
    ],
)
def test_sparkline(values: list[float], picture: str) -> None:
    assert sparkline(values) == picture


def test_sparkline_is_no_longer_than_sixty() -> None:
    assert len(sparkline([float(number) for number in range(1000)])) <= 60


def test_json_has_no_numbers_that_are_none() -> None:
    diverged = record(judgement(statistics={"loss": float("nan")}))
    diverged.traces = {"loss": [1.0, float("inf")]}
    document = json.loads(as_json(settle([finding()], [diverged]), Outcome(["train.py"], [diverged])))
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))
    assert document["runs"][0]["traces"] == {"loss": [1.0, None]}
    assert document["verdicts"][0]["evidence"]["statistics"] == {"loss": None}


def test_report_of_a_run_that_failed() -> None:
    broken = record()
    broken.stop, broken.error = "exception", "RuntimeError: no\nspace"
    text = render(settle([], [broken]), [broken], color=False)
    assert "an exception ended it (RuntimeError: no space)" in text
    assert text.endswith("No findings to settle.\n")
