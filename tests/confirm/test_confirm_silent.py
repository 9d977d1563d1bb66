"""What only a run can show: each check speaks on a script with the bug, and on none without."""

from __future__ import annotations

import pytest
from confirm_support import SCRIPTS, expectations, judgements_at, observed

from dllint.confirm.launch import Outcome

pytestmark = pytest.mark.slow

SCRIPT_NAMES = ("silent_bad", "silent_good")
WHOLE_RUN = {
    "silent_bad": {
        "scale-collapse": "CONFIRMED",
        "same-order-every-epoch": "CONFIRMED",
        "DL404": "CONFIRMED",
        "DL306": "CONFIRMED",
    },
    "silent_good": {
        "scale-collapse": "REFUTED",
        "same-order-every-epoch": "REFUTED",
        "DL415": "REFUTED",
        "DL404": "REFUTED",
    },
}


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in SCRIPT_NAMES]
)
def run(request: pytest.FixtureRequest) -> tuple[str, Outcome]:
    return request.param, observed(SCRIPTS / f"{request.param}.py")


def test_no_probe_fails(run: tuple[str, Outcome]) -> None:
    (record,) = run[1].records
    assert (record.errors, record.stop, record.error) == ([], "end", "")


def test_verdicts_at_lines(run: tuple[str, Outcome]) -> None:
    name, outcome = run
    script = SCRIPTS / f"{name}.py"
    expected = list(expectations(script))
    assert len(expected) > 15
    for line, rule, verdict in expected:
        found = [judgement.verdict for judgement in judgements_at(outcome, script, line, rule)]
        assert "CONFIRMED" not in found if verdict == "NOT CONFIRMED" else found == [verdict], (line, rule, found)


def test_verdicts_of_the_run(run: tuple[str, Outcome]) -> None:
    (record,) = run[1].records
    for rule, verdict in WHOLE_RUN[run[0]].items():
        assert [item.verdict for item in record.judgements if item.rule == rule] == [verdict], rule


def test_good_twins_are_passed_over(run: tuple[str, Outcome]) -> None:
    name, outcome = run
    (record,) = outcome.records
    speaking = {item.rule for item in record.judgements if item.verdict == "CONFIRMED" and item.voice}
    if name == "silent_good":
        assert speaking == set()
    else:
        script = SCRIPTS / f"{name}.py"
        wanted = {rule for _, rule, verdict in expectations(script) if verdict == "CONFIRMED"}
        assert speaking == wanted | WHOLE_RUN[name].keys() | {"DL415"}


def test_what_is_drawn(run: tuple[str, Outcome]) -> None:
    (record,) = run[1].records
    pictures = record.pictures
    layer = next(layer for layer in pictures.layers if layer.updates)
    assert layer.weights is not None and sum(layer.weights.counts) > 0
    assert layer.gradient is not None and [step for step, _ in layer.updates][:3] == [0, 1, 2]
    assert any(units.kind == "ReLU" and units.samples >= 1000 for units in pictures.units)
    assert any(units.kind == "tanh" for units in pictures.units)
    assert pictures.orders and any(name.startswith("labels by class") for name in pictures.histograms)
