"""Rules in preview: those of whose findings in unread code too many were false or noise, and no others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dllint.registry import load_rules

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))
import truth


def reading(batch: int, *verdicts: tuple[str, str, str]) -> truth.Reading:
    """A batch in which a rule reported things in projects: code, project and verdict of each."""
    name = f"batch-{batch}"
    found = tuple(
        truth.Judged(name, project, "abc", code, "train.py:1", "likely", (), "", verdict, "as it is read")
        for code, project, verdict in verdicts
    )
    return truth.Reading(name, f"{len(found)} repositories", found)


@pytest.mark.parametrize(
    ("false", "doubtful", "falls_short"),
    [(0, 0, False), (3, 0, False), (3.5, 0, True), (0, 8.5, False), (0, 9, True), (3, 5.5, False), (3, 6, True)],
)
def test_a_rule_falls_short_by_what_is_false_and_by_what_is_noise(
    false: float, doubtful: float, falls_short: bool
) -> None:
    assert truth.Standing(20, false, doubtful).falls_short is falls_short


def test_a_single_doubtful_project_is_no_record() -> None:
    assert not truth.Standing(1, 0, 1).falls_short
    assert truth.Standing(1, 1, 0).falls_short
    assert truth.Standing(2, 0, 2).falls_short
    assert not truth.Standing(6, 1, 0).falls_short


def test_a_project_counts_once() -> None:
    copies = [("DL101", "copies", "false")] * 3 + [("DL101", "copies", "true")]
    found = truth.standings([reading(1, *copies, ("DL101", "other", "true"), ("DL102", "other", "doubtful"))])
    assert found == {"DL101": truth.Standing(2, 0.75, 0), "DL102": truth.Standing(1, 0, 1)}


def test_only_the_last_batches_and_projects_count() -> None:
    early = reading(1, ("DL101", "early", "false"))
    late = [reading(number, ("DL101", f"p{number}", "true")) for number in range(2, 2 + truth.RECENT)]
    assert truth.standings([*late, early])["DL101"] == truth.Standing(truth.LAST, 0, 0)
    assert truth.standings([early, *late[: truth.LAST - 1]])["DL101"].false == 1
    assert truth.standings([early, *late[: truth.LAST]])["DL101"].false == 0
    assert truth.standings([early, reading(truth.RECENT + 1), *(reading(n) for n in range(2, truth.RECENT + 1))]) == {}


def test_rules_that_fall_short_are_in_preview_and_no_others() -> None:
    short = {code for code, each in truth.standings(truth.readings()).items() if each.falls_short}
    rules = {rule.code: rule for rule in load_rules() if not rule.code.startswith("DL00")}
    marked = {code for code, rule in rules.items() if rule.preview}
    off = {code for code, rule in rules.items() if not rule.default and not rule.preview}
    assert marked == (short & rules.keys()) - off, "say `preview = True` of these, and of no others"


def test_what_is_in_preview_is_off() -> None:
    assert [rule.code for rule in load_rules() if rule.preview and rule.default] == []
