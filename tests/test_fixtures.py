"""What holds over all fixtures together. Each of them is tested by the plugin, which collects ``fixtures``."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

from dllint.registry import builtin_directory, load_rules
from dllint.rule import Rule
from dllint.testing.cases import Case, Fixture, read_fixture
from dllint.testing.checking import find_rules, vary_files
from dllint.testing.linting import Setup, lint
from dllint.testing.variations import NAMES

FOLDER = Path(__file__).resolve().parent.parent / "fixtures"
FIXTURES = [path for path in sorted(FOLDER.rglob("*.py")) if re.fullmatch(r"(dl|axc)\d+_\w+\.py", path.name)]
KNOWN_FAULTS = {
    "test_triggers_are_shown[dl103_probabilities_into_bce_with_logits]": "the fixture does not show all its triggers",
    "test_triggers_are_shown[dl104_nll_loss_without_log_softmax]": "the fixture does not show all its triggers",
    "test_triggers_are_shown[dl113_log_of_softmax]": "the fixture does not show all its triggers",
}
"""Tests that fail, with the reason. One that passes again fails until its line here is gone."""

each_fixture = pytest.mark.parametrize("path", FIXTURES, ids=[path.stem for path in FIXTURES])
read = cache(read_fixture)


@pytest.fixture(autouse=True)
def known_faults(request: pytest.FixtureRequest) -> None:
    if reason := KNOWN_FAULTS.get(request.node.name):
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))


def rule_of(fixture: Fixture) -> type[Rule]:
    return find_rules([fixture.code], load_rules())[0]


def places(case: Case, rule: type[Rule], *, among: Sequence[type[Rule]] = (), sieve: bool) -> list[tuple[str, int]]:
    """Where a rule reports something in a case, alone or among others."""
    setup = Setup(among or [rule], case.versions, case.explicit, sieve=sieve, notes=case.notes)
    return sorted(
        (file.name, file.line_of(finding))
        for file in lint(case.files, setup)
        for finding in file.findings
        if finding.code == rule.code
    )


def identifiers(case: Case) -> Iterator[str]:
    """The names, and the words in strings, of the code of a case; no comments and no docstrings."""
    for text in case.files.values():
        tree = ast.parse(text)
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in (node for node in ast.walk(tree) if id(node) not in docstrings):
            for _, value in ast.iter_fields(node):
                yield from re.findall(r"\w+", value) if isinstance(value, str) else ()


def test_there_are_fixtures() -> None:
    assert len(FIXTURES) >= 3


@each_fixture
def test_triggers_are_sound(path: Path) -> None:
    """A rule that is run on everything finds nothing that it does not find where its triggers call it."""
    fixture = read(path)
    rule = rule_of(fixture)
    for case in fixture.cases:
        assert places(case, rule, sieve=False) == places(case, rule, sieve=True), case.title


@each_fixture
def test_triggers_are_shown(path: Path) -> None:
    """Every word of the triggers is in a marked case, or the fixture says why not."""
    fixture = read(path)
    shown = {word for case in fixture.cases if case.is_marked() for word in identifiers(case)}
    words = {word for alternatives in rule_of(fixture).triggers for word in alternatives}
    assert words - shown == set(fixture.not_shown)


@each_fixture
def test_fix_safety_is_that_of_the_fixes(path: Path) -> None:
    """A rule offers fixes exactly if it says so, and none that is less safe than it says."""
    fixture = read(path)
    rule = rule_of(fixture)
    setups = [
        (case, Setup([rule], case.versions, case.explicit, notes=case.notes))
        for case in fixture.cases
        if case.is_marked()
    ]
    offered = {
        fix.safety
        for case, setup in setups
        for file in lint(case.files, setup)
        for finding in file.findings
        for fix in finding.fixes
    }
    order = ["safe", "unsafe", "suggestion"]
    assert max(offered, key=order.index, default="") == rule.fix_safety


@each_fixture
def test_no_rule_crashes(path: Path) -> None:
    """Every rule survives the fixtures of all others."""
    rules = [rule for rule in load_rules() if rule.triggers]
    for case in read(path).cases:
        lint(case.files, Setup(rules, case.versions, explicit=True, notes=case.notes))


@pytest.mark.slow
def test_variations_apply() -> None:
    """Each variation applies to a good part of all cases: one that never does would test nothing."""
    cases = [case for path in FIXTURES for case in read(path).cases]
    applied = Counter(
        name
        for case in cases
        for name in NAMES
        if name not in case.unvaried and vary_files(case.files, name) is not None
    )
    for name in NAMES:
        assert applied[name] >= len(cases) / 20, f"{name}: {applied[name]} of {len(cases)}"


def test_fixtures_lie_beside_their_rules() -> None:
    for path in FIXTURES:
        assert (builtin_directory() / path.relative_to(FOLDER)).exists()


@pytest.mark.slow
@each_fixture
def test_other_rules_change_nothing(path: Path) -> None:
    """What is left out depends on which rules run: with all of them, each finds what it finds alone."""
    fixture = read(path)
    rule, all_rules = rule_of(fixture), load_rules()
    for case in fixture.cases:
        assert places(case, rule, among=all_rules, sieve=True) == places(case, rule, sieve=False), case.title
