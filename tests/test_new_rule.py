"""A rule made by ``dllint new`` loads, runs, passes its own fixture, and has the page that rules must have."""

from __future__ import annotations

from pathlib import Path

import pytest
from rule_pages import count_findings, examples, headings, measurements, page_of

from dllint.cli import main
from dllint.rule_files import load_file

STEM = "some_bad_pattern"


@pytest.fixture
def project(pytester: pytest.Pytester) -> Path:
    """A folder in which a rule has just been made."""
    assert main(["new", "DL299", "some-bad-pattern", "--family", "mine"]) == 0
    return pytester.path


def test_it_passes_its_fixture(project: Path, pytester: pytest.Pytester) -> None:
    pytester.makeconftest('pytest_plugins = ["dllint.testing.plugin"]')
    pytester.makepyprojecttoml('[tool.dllint]\nrule-paths = ["rules"]')
    result = pytester.runpytest_inprocess("-p", "no:hypothesispytest", "-k", "DL299")
    result.assert_outcomes(passed=14)


def test_its_page_lacks_nothing_but_a_measurement(project: Path) -> None:
    (rule,) = load_file(project / "rules" / "mine" / f"dl299_{STEM}.py")
    page = page_of(rule)
    assert rule.__name__ == "SomeBadPattern" and headings(page) == ["Bad", "Good", "Not reported"]
    assert all(any(count_findings(example, rule)) for example in examples(page, "Bad"))
    assert not any(any(count_findings(example, rule)) for example in examples(page, "Good"))
    assert not measurements(page)
