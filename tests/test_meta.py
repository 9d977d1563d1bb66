"""What every rule must keep to: its name, its page, what it imports, and that its page tells the truth."""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest
from rule_pages import completed, count_findings, examples, headings, measurements, page_of

from dllint.context.excuses import says
from dllint.registry import builtin_directory, rule_files
from dllint.rule import Rule
from dllint.rule_files import load_file

ROOT = Path(__file__).resolve().parent.parent
FILES = rule_files(builtin_directory())
RULES = [(path, rule) for path in FILES for rule in load_file(path)]

KNOWN_FAULTS: dict[str, str] = {}
"""Tests that fail, with the reason. One that passes again fails until its line here is gone."""

each_rule = pytest.mark.parametrize(("path", "rule"), RULES, ids=[rule.code for _, rule in RULES])


@pytest.fixture(autouse=True)
def known_faults(request: pytest.FixtureRequest) -> None:
    if reason := KNOWN_FAULTS.get(request.node.name):
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))


def test_there_are_rules() -> None:
    assert len(RULES) >= 3


def test_codes_and_names_are_unique() -> None:
    for key in ("code", "name"):
        counts = Counter(getattr(rule, key) for _, rule in RULES)
        assert max(counts.values()) == 1, counts.most_common(1)


@each_rule
def test_file_is_called_after_the_rule(path: Path, rule: type[Rule]) -> None:
    assert path.stem == f"{rule.code.lower()}_{rule.name.replace('-', '_')}"


@each_rule
def test_class_is_called_after_the_rule(path: Path, rule: type[Rule]) -> None:
    assert rule.__name__.lower() == rule.name.replace("-", "")


@each_rule
def test_has_triggers(path: Path, rule: type[Rule]) -> None:
    assert rule.triggers and all(rule.triggers), "a rule without triggers never runs"


@each_rule
def test_fixture(path: Path, rule: type[Rule]) -> None:
    fixture = ROOT / "fixtures" / path.relative_to(builtin_directory())
    assert fixture.exists()


def test_fixtures_have_rules() -> None:
    known = {path.relative_to(builtin_directory()) for path in FILES}
    for fixture in rule_files(ROOT / "fixtures"):
        assert fixture.relative_to(ROOT / "fixtures") in known


@each_rule
def test_page_has_its_headings(path: Path, rule: type[Rule]) -> None:
    fix = [f"Fix ({rule.fix_safety})"] if rule.fix_safety else []
    assert headings(page_of(rule)) == ["Bad", "Good", "Not reported", *fix, "On real code"]


@each_rule
def test_page_begins_with_a_phrase(path: Path, rule: type[Rule]) -> None:
    first, _, rest = page_of(rule).strip().partition("\n")
    assert first.endswith(".") and not rest.split("\n")[0].strip() and len(first) <= 120


@each_rule
def test_page_says_what_was_measured(path: Path, rule: type[Rule]) -> None:
    assert measurements(page_of(rule))


@each_rule
def test_bad_examples_are_reported(path: Path, rule: type[Rule]) -> None:
    found = list(examples(page_of(rule), "Bad"))
    assert found
    for example in found:
        assert any(count_findings(example, rule)), example


@each_rule
def test_good_examples_are_not_reported(path: Path, rule: type[Rule]) -> None:
    found = list(examples(page_of(rule), "Good"))
    assert found
    for example in found:
        assert not any(count_findings(example, rule)), example


@each_rule
def test_prelude_of_the_examples_is_not_reported(path: Path, rule: type[Rule]) -> None:
    assert count_findings("", rule) == (0, 0)


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_imports_of_a_rule_file(path: Path) -> None:
    """A rule imports what rules are given, and the standard library: no torch, no libcst, no other rule."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level
            modules = [node.module or ""]
        else:
            continue
        for module in modules:
            assert module == "dllint.api" or module.partition(".")[0] in sys.stdlib_module_names, module


def shared(found: dict[str, set[str]]) -> set[str]:
    """What more than one file has."""
    return {name for name, files in found.items() if len(files) > 1}


def private_helpers(tree: ast.Module) -> set[str]:
    """The functions and classes that only their own file uses."""
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in tree.body if isinstance(node, kinds) and node.name.startswith("_")}


def words_matched(tree: ast.Module) -> set[str]:
    """The words, of four letters or more, in the regular expressions that a file compiles or searches with."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    own = [call for call in calls if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "re"]
    texts = (each.value for call in own for each in ast.walk(call) if isinstance(each, ast.Constant))
    return {
        word for text in texts if isinstance(text, str) for word in re.findall(r"(?<!\\)[a-z]{4,}", text.lower())
    } - {"torch"}


def in_all_files(what: Callable[[ast.Module], set[str]]) -> dict[str, set[str]]:
    """In which rule files each of some names is."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in FILES:
        for name in what(ast.parse(path.read_text("utf-8"))):
            found[name].add(path.stem)
    return found


def test_no_two_rules_define_the_same_helper() -> None:
    """What two rules need is a question that the context answers."""
    assert not shared(in_all_files(private_helpers))


def test_no_two_rules_look_for_the_same_word() -> None:
    """What words speak of is told by ``dllint/knowledge/names.toml``, for all rules alike."""
    assert not shared(in_all_files(words_matched))


@each_rule
def test_excuses_are_told(path: Path, rule: type[Rule]) -> None:
    """Each excuse is a function of the rule's file that says in a phrase why nothing is reported."""
    for excuse in rule.excuses:
        assert excuse.__module__ == rule.__module__ and not excuse.__name__.startswith("_")
        phrase = says(excuse)
        assert excuse.__doc__ and phrase[:1] in "`ab cdefghijklmnopqrstuvwxyz" and not phrase.endswith("."), phrase


class TestHelpers:
    """The checks above must be able to fail."""

    page = "First.\n\nMeasured: 3.\n\n## Bad\n    a = 1\n\n    b = 2\n\nOr:\n    c = 3\n\n## Good\nNothing.\n"

    def test_examples(self) -> None:
        assert list(examples(self.page, "Bad")) == ["a = 1\n\nb = 2\n", "c = 3\n"]
        assert list(examples(self.page, "Good")) == [] == list(examples(self.page, "Missing"))

    def test_a_bad_example_is_told_from_a_good_one(self) -> None:
        rule = next(rule for _, rule in RULES if rule.code == "DL202")
        loop = "for x, y in self.loader:\n    {}\n    F.mse_loss(self.fc(x), y).backward()\n    self.optimizer.step()\n"
        assert count_findings(loop.format("pass"), rule) == (1, 1)
        assert count_findings(loop.format("self.optimizer.zero_grad()"), rule) == (0, 0)
        whole = "def fit(model, loader, optimizer):\n" + textwrap.indent(
            loop.format("pass").replace("self.", ""), "    "
        )
        assert completed(whole).endswith("\nfit(model, loader, optimizer)\n")
        assert count_findings(whole.replace("fc(x)", "model(x)"), rule) == (1, 1)

    def test_what_rules_share(self) -> None:
        tree = ast.parse("WORD = re.compile(r'(^|_)teacher|ema')\n\ndef _is_one(): ...\n\ndef excuse(): ...\n")
        assert private_helpers(tree) == {"_is_one"}
        assert words_matched(tree) == {"teacher"}
        assert shared({"a": {"x", "y"}, "b": {"x"}}) == {"a"}
