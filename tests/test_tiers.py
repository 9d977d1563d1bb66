"""How sure a claim is: by what it assumes, and by the record of its rule."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dllint import tiers
from dllint.assumptions import Assumption
from dllint.registry import load_rules
from dllint.tiers import confidence_in, is_proven

sys.path.insert(0, str(Path(__file__).parents[1] / "bench"))
import truth


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"true": 10, "false": 0, "doubtful": 0}, True),
        ({"true": 6, "false": 0, "doubtful": 4}, True),
        ({"true": 9, "false": 0, "doubtful": 0}, False),
        ({"true": 48, "false": 1, "doubtful": 0}, False),
        ({"true": 49, "false": 1, "doubtful": 0}, True),
        ({}, False),
    ],
)
def test_a_rule_is_proven_by_ten_claims_of_which_one_in_fifty_is_false(
    monkeypatch: pytest.MonkeyPatch, counts: dict[str, int], expected: bool
) -> None:
    monkeypatch.setattr(tiers, "records", lambda: {"DL901": counts} if counts else {})
    assert is_proven("DL901") is expected
    assert confidence_in("DL901", ()) == ("certain" if expected else "likely")


def test_an_assumption_counts_for_all_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "reliable_kinds", lambda: frozenset({"entry"}))
    monkeypatch.setattr(tiers, "records", lambda: {"DL901": {"true": 99, "false": 0, "doubtful": 0}})
    assert confidence_in("DL901", [Assumption("entry", "somebody calls it")]) == "likely"
    assert confidence_in("DL901", [Assumption("effect", "somebody uses it")]) == "possible"


def test_the_author_of_a_plug_in_answers_for_it() -> None:
    assert is_proven("ACME001")
    assert confidence_in("ACME001", ()) == "certain"


def test_the_records_are_those_of_the_batches() -> None:
    assert "\n".join(truth.records(truth.readings())) + "\n" == truth.RECORDS.read_text("utf-8")
    assert set(tiers.records()) <= {rule.code for rule in load_rules()}
    assert any(map(is_proven, tiers.records()))
