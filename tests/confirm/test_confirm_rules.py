"""The probes on small scripts: what has a bug is confirmed, what has none is refuted."""

from __future__ import annotations

from pathlib import Path

import pytest
from confirm_support import SCRIPTS, expectations, judgements_at, observed

from dllint.config.load import ConfigLoader, Source
from dllint.config.resolve import resolve
from dllint.confirm.launch import Outcome
from dllint.confirm.rules import judged
from dllint.confirm.verdicts import settle
from dllint.runner import lint_files

pytestmark = pytest.mark.slow

LOOPS = (
    *("loops_bad", "loops_good", "training_bad", "training_good"),
    *("language_bad", "language_good", "agents_bad", "agents_good"),
    *("data_bad", "data_good", "models_bad", "models_good", "saving_bad", "saving_good", "trainers"),
    *("libraries_bad", "libraries_good", "missed_bad", "missed_good", "axes_bad", "axes_good"),
)
RUNS = ("run_bad", "run_good", "images_bad", "images_good", "parts_bad", "parts_good")
SILENT = ("silent_bad", "silent_good")  # which have tests of their own
RESUMED = {"DL703", "DL712"}  # of two runs, as in test_confirm_resuming.py
DECIDED = {code for code, known in judged().items() if known.unreached}
ONLY_CONFIRMED = {"DL821", "DL823"}  # where no samples mix, other axes may
RANKED = {"DL405", "DL516", "DL705", "DL805"}  # of several ranks, as in test_confirm_ranks.py


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    return {}


def outcome_of(name: str, outcomes: dict[str, Outcome]) -> Outcome:
    if name.startswith("agents"):
        pytest.importorskip("stable_baselines3")
    if name not in outcomes:
        outcomes[name] = observed(SCRIPTS / f"{name}.py")
    return outcomes[name]


def each_expectation(names: tuple[str, ...]) -> pytest.MarkDecorator:
    cases = [
        pytest.param(name, *expected, id=f"{name}-{expected[0]}-{expected[1]}", marks=pytest.mark.xdist_group(name))
        for name in names
        for expected in expectations(SCRIPTS / f"{name}.py")
    ]
    return pytest.mark.parametrize(("script", "line", "rule", "verdict"), cases)


@each_expectation(LOOPS)
def test_verdict_at_line(script: str, line: int, rule: str, verdict: str, outcomes: dict[str, Outcome]) -> None:
    outcome = outcome_of(script, outcomes)
    found = judgements_at(outcome, SCRIPTS / f"{script}.py", line, rule)
    if verdict == "NOT CONFIRMED":
        assert all(judgement.verdict != "CONFIRMED" for judgement in found)
    else:
        assert [judgement.verdict for judgement in found] == [verdict], found


@each_expectation(RUNS)
def test_verdict_of_the_run(script: str, line: int, rule: str, verdict: str, outcomes: dict[str, Outcome]) -> None:
    (record,) = outcome_of(script, outcomes).records
    found = {judgement.verdict for judgement in record.judgements if judgement.rule == rule}
    assert found == {verdict}, [judgement for judgement in record.judgements if judgement.rule == rule]


@pytest.mark.parametrize("script", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in LOOPS + RUNS])
def test_no_probe_fails(script: str, outcomes: dict[str, Outcome]) -> None:
    (record,) = outcome_of(script, outcomes).records
    assert (record.errors, record.stop, record.error) == ([], "end", "")


@pytest.mark.parametrize("script", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in LOOPS + RUNS])
def test_each_judgement_says_what_it_was_compared_with(script: str, outcomes: dict[str, Outcome]) -> None:
    (record,) = outcome_of(script, outcomes).records
    assert [item for item in record.judgements if not item.threshold or item.voice not in ("alarm", "note", "")] == []


@pytest.mark.parametrize(
    "script", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in LOOPS + RUNS if "good" in name]
)
def test_good_scripts_raise_no_alarm(script: str, outcomes: dict[str, Outcome]) -> None:
    (record,) = outcome_of(script, outcomes).records
    assert [item for item in record.judgements if item.verdict == "CONFIRMED" and item.voice == "alarm"] == []


@pytest.mark.xdist_group("loops_bad")
def test_calls_that_torch_hands_on_are_told_once(outcomes: dict[str, Outcome]) -> None:
    """A default device is a mode, which torch hands each call of its functions to, and which makes it again."""
    script = SCRIPTS / "loops_bad.py"
    (record,) = outcome_of("loops_bad", outcomes).records
    (moved,) = observed(SCRIPTS / "on_device.py", "cpu", str(script)).records
    counted = [
        {(item.rule, item.stacks[0][0].line, item.verdict, item.events) for item in each.judgements if item.stacks}
        for each in (record, moved)
    ]
    assert counted[0] == counted[1]


@pytest.mark.xdist_group("missed_bad")
def test_biases_that_no_optimizer_holds(outcomes: dict[str, Outcome]) -> None:
    (record,) = outcome_of("missed_bad", outcomes).records
    assert {item.verdict for item in record.judgements if item.rule == "DL307"} == {"CONFIRMED"}


@pytest.mark.xdist_group("missed_bad")
def test_what_another_bug_has_caused_is_not_told_beside_it(outcomes: dict[str, Outcome]) -> None:
    told = {item.rule for item in settle([], outcome_of("missed_bad", outcomes).records).alarms}
    assert "loss-not-finite" in told and "weights-not-finite" not in told


@pytest.mark.xdist_group("parts_bad")
def test_parts_that_nothing_has_replaced_are_told_of_once(outcomes: dict[str, Outcome]) -> None:
    (record,) = outcome_of("parts_bad", outcomes).records
    voices = {item.rule: item.voice for item in record.judgements if item.rule in ("DL306", "DL307")}
    assert voices == {"DL306": "", "DL307": "alarm"}


@pytest.mark.xdist_group("loops_bad")
def test_what_is_saved_goes_elsewhere(outcomes: dict[str, Outcome]) -> None:
    (record,) = outcome_of("loops_bad", outcomes).records
    assert {Path(path).name for path in record.redirected} >= {"incomplete.pt", "wrapped.pt"}
    assert not Path("incomplete.pt").exists()


@pytest.mark.parametrize(
    "script", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in ("loops_bad", "run_bad")]
)
def test_each_finding_of_the_linter_is_confirmed(script: str, outcomes: dict[str, Outcome]) -> None:
    path = SCRIPTS / f"{script}.py"
    preview = Source("command line", SCRIPTS, {"extend-select": ["PREVIEW"]})
    report = lint_files([path], resolve(ConfigLoader(isolated=True, overrides=[preview]).load(SCRIPTS)), cache=False)
    findings = [finding for finding in report.findings if finding.code in judged()]
    settled = settle(findings, outcome_of(script, outcomes).records).settled
    assert len(settled) > 5
    assert [(item.finding.code, item.finding.location.line, item.answer) for item in settled] == [
        (finding.code, finding.location.line, "CONFIRMED") for finding in findings
    ]


@pytest.mark.xdist_group("axes_bad")
def test_findings_about_axes_are_confirmed_at_their_lines(outcomes: dict[str, Outcome]) -> None:
    asked = Source("test", SCRIPTS, {"extend-select": ["DL821"]})
    settings = resolve(ConfigLoader(isolated=True, overrides=[asked]).load(SCRIPTS))
    report = lint_files([SCRIPTS / "axes_bad.py"], settings, cache=False)
    findings = [finding for finding in report.findings if finding.code in ("DL821", "DL829")]
    settled = settle(findings, outcome_of("axes_bad", outcomes).records).settled
    assert {(item.finding.code, item.answer) for item in settled} == {("DL821", "CONFIRMED"), ("DL829", "CONFIRMED")}


def test_each_rule_that_a_run_decides_has_twins() -> None:
    expected = [item for name in LOOPS + RUNS + SILENT for item in expectations(SCRIPTS / f"{name}.py")]
    for verdict, exempt in (("CONFIRMED", set[str]()), ("REFUTED", ONLY_CONFIRMED)):
        assert {rule for _, rule, given in expected if given == verdict} >= DECIDED - RANKED - RESUMED - exempt
