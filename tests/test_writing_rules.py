"""What ``docs/writing-rules.md`` says must be so: its tables are complete, and its example passes its own tests."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from rule_pages import count_findings, examples, headings, measurements, page_of

from dllint import api
from dllint.context import Context
from dllint.hooks import hooks_of
from dllint.rule import Rule
from dllint.rule_files import load_file
from dllint.testing.variations import NAMES

DOCS = (Path(__file__).resolve().parent.parent / "docs" / "writing-rules.md").read_text("utf-8")
FILES = dict(re.findall(r'^```python title="(.*?)"\n(.*?)^```$', DOCS, re.MULTILINE | re.DOTALL))
RULE = "rules/loss/dl190_full_label_smoothing.py"

EVENTS = [
    value
    for value in vars(api).values()
    if isinstance(value, type) and issubclass(value, api.Event) and value is not api.Event
]


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """The example as a project of its own, with the configuration that the page shows."""
    (configuration,) = re.findall(r"^```toml\n(.*?)^```$", DOCS, re.MULTILINE | re.DOTALL)
    (conftest,) = re.findall(r"^```python\n(# conftest.*?)^```$", DOCS, re.MULTILINE | re.DOTALL)
    for name, text in {"pyproject.toml": configuration, "conftest.py": conftest, **FILES}.items():
        path = pytester.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return pytester


def test_example_passes_its_fixture(project: pytest.Pytester) -> None:
    fixture = FILES[RULE.replace("rules", "fixtures")]
    tests = 2 + 2 * fixture.count("# case:") + fixture.count("# DL190")
    result = project.runpytest_inprocess("-p", "no:hypothesispytest", "-k", "DL190", "--update")
    result.assert_outcomes(passed=tests)
    fixed = (project.path / "fixtures/loss/dl190_full_label_smoothing.fixed.diff").read_text("utf-8")
    assert re.search(r"^-.*label_smoothing=True", fixed, re.MULTILINE)
    assert "label_smoothing=True" not in re.sub(r"^-.*", "", fixed, flags=re.MULTILINE)
    assert re.search(r"^\+.*label_smoothing=0.1\)  # DL190", fixed, re.MULTILINE)
    project.runpytest_inprocess("-p", "no:hypothesispytest").assert_outcomes(passed=tests)


def test_example_has_a_page_that_is_true(project: pytest.Pytester) -> None:
    (rule,) = load_file(project.path / RULE)
    page = page_of(rule)
    assert headings(page) == ["Bad", "Good", "Not reported", "Fix (unsafe)"] and measurements(page)
    assert all(all(count_findings(example, rule)) for example in examples(page, "Bad"))
    assert not any(any(count_findings(example, rule)) for example in examples(page, "Good"))


@pytest.mark.parametrize("event", EVENTS, ids=[event.__name__ for event in EVENTS])
def test_table_of_events(event: type[api.Event]) -> None:
    hook = "on_" + re.sub(r"(?<!^)(?=[A-Z])", "_", event.__name__).lower()
    rule = type("Listener", (Rule,), {hook: None})
    assert hooks_of(rule) == {event: hook}
    own = [field.name for field in dataclasses.fields(event) if not field.kw_only and field.name != "site"]
    row = re.search(rf"^\| `{hook}` \| .* \| (.*) \|$", DOCS, re.MULTILINE)
    assert row and re.findall(r"`(\w+)`", row[1]) == own


def test_events_in_the_table_exist() -> None:
    assert len(re.findall(r"^\| `on_\w+`", DOCS, re.MULTILINE)) == len(EVENTS)


def test_fields_of_every_event_are_explained() -> None:
    common = [field.name for field in dataclasses.fields(api.Event)]
    (sentence,) = re.findall(r"Every event also has a (.*?)\n\n", DOCS, re.DOTALL)
    assert set(common) <= set(re.findall(r"`(\w+)`", sentence))


def test_questions_to_the_context_exist() -> None:
    asked = set(re.findall(r"`ctx\.(\w+)", DOCS))
    assert len(asked) > 15 and not [name for name in asked if not hasattr(Context, name) and name != "versions"]


def test_names_of_the_api_exist() -> None:
    values = re.findall(r"^\| ((?:`[A-Z]\w+`(?:, )?)+) \|", DOCS, re.MULTILINE)
    names = {name for row in values for name in re.findall(r"\w+", row)}
    helpers = {"judge", "assumed_under", "alternatives", "rename_call", "set_argument", "unwrap_call", "replace_range"}
    helpers |= {"remove_operation"}
    assert len(names) >= 9 and names | helpers <= set(api.__all__)


def test_variations_are_named() -> None:
    assert all(f"`{name}`" in DOCS for name in NAMES)
