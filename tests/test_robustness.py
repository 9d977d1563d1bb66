"""No code makes dllint fail: generated modules, and the cases of all fixtures with lines and expressions out of place.

All rules run on all of it, with what they report only when asked for, and whatever their triggers say.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path

import hypothesmith
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from dllint.files.source import SourceFile
from dllint.findings import Finding
from dllint.fixes import fix_source
from dllint.registry import load_rules
from dllint.testing.cases import MAIN, read_fixture
from dllint.testing.linting import Setup, lint

FIXTURES = sorted((Path(__file__).resolve().parent.parent / "fixtures").glob("*/dl[0-9]*.py"))
ALL_RULES = Setup(load_rules(), explicit=True, sieve=False)

Project = dict[str, str]
NUMBERS = st.integers(0, 500)

quick = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


@cache
def cases() -> list[Project]:
    """The projects in all fixtures, without the blank lines that give each its place in the fixture."""
    fixtures = (read_fixture(path) for path in FIXTURES)
    return [
        {name: "".join(line for line in text.splitlines(keepends=True) if line.strip()) for name, text in files.items()}
        for fixture in fixtures
        for files in (case.files for case in fixture.cases)
    ]


def parses(text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            return False
    return not any(isinstance(node, ast.Call) and gives_twice(node) for node in ast.walk(tree))


def gives_twice(call: ast.Call) -> bool:
    """Whether a call gives a keyword twice, which Python parses and does not compile: dllint says so."""
    names = [keyword.arg for keyword in call.keywords if keyword.arg is not None]
    return len(set(names)) < len(names)


@st.composite
def damaged(draw: st.DrawFn) -> Project:
    """A case of which lines were deleted, doubled or swapped: whatever of that Python still takes."""
    project = dict(draw(st.sampled_from(cases())))
    for _ in range(draw(st.integers(1, 6))):
        name = draw(st.sampled_from(sorted(project)))
        how = draw(st.sampled_from(("delete", "double", "swap")))
        after = with_damage(project[name], how, draw(NUMBERS), draw(NUMBERS))
        if parses(after):
            project[name] = after
    return project


def with_damage(text: str, how: str, first: int, second: int) -> str:
    lines = text.splitlines(keepends=True) or [""]
    one, other = first % len(lines), second % len(lines)
    if how == "delete":
        del lines[one]
    elif how == "double":
        lines.insert(other, lines[one])
    else:
        lines[one], lines[other] = lines[other], lines[one]
    return "".join(lines)


@st.composite
def crossed(draw: st.DrawFn) -> Project:
    """A case in which some expressions have given way to expressions of another case."""
    project = dict(draw(st.sampled_from(cases())))
    donor = ast.parse(next(iter(draw(st.sampled_from(cases())).values())))
    donated = [node for node in ast.walk(donor) if is_read(node)]
    name = draw(st.sampled_from(sorted(project)))
    tree = ast.parse(project[name])
    assume(donated)
    for _ in range(draw(st.integers(1, 4))):
        places = list(places_of_expressions(tree))
        assume(places)
        parent, field, index = places[draw(NUMBERS) % len(places)]
        new = deepcopy(donated[draw(NUMBERS) % len(donated)])
        if index is None:
            setattr(parent, field, new)
        else:
            getattr(parent, field)[index] = new
    return {**project, name: unparsed(tree)}


def is_read(node: object) -> bool:
    return isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load)


def places_of_expressions(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
    """The parent of each expression, the field in which it is, and the index in it if the field is a list."""
    for parent in ast.walk(tree):
        for field, value in ast.iter_fields(parent):
            children = list(enumerate(value)) if isinstance(value, list) else [(None, value)]
            yield from ((parent, field, index) for index, node in children if is_read(node))


def unparsed(tree: ast.AST) -> str:
    try:
        text = ast.unparse(tree)
    except ValueError:  # a name where only text may be in an f-string
        text = "("
    assume(parses(text))
    return text


@settings(quick, max_examples=60)
@given(hypothesmith.from_grammar() | hypothesmith.from_node())
def test_generated_modules(text: str) -> None:
    lint({MAIN: text}, ALL_RULES)


@settings(quick, max_examples=150)
@given(damaged())
def test_cases_with_lines_out_of_place(project: Project) -> None:
    lint(project, ALL_RULES)


@settings(quick, max_examples=150)
@given(crossed())
@example({MAIN: "import torch\ntorch.random.seed(0)\n"})
def test_cases_with_expressions_out_of_place(project: Project) -> None:
    lint(project, ALL_RULES)


@pytest.mark.slow
@settings(quick, max_examples=150)
@given(damaged() | crossed())
def test_fixes_of_cases_with_something_out_of_place(project: Project) -> None:
    """No fix has to be taken back because it breaks the file, and fixing again changes nothing.

    A fix may be of no use: what is damaged, a bug of the rule or the code around it, is not to be told apart here.
    """
    name = next(iter(project))

    def linted(text: str) -> tuple[SourceFile, list[Finding]]:
        file = next(file for file in lint({**project, name: text}, ALL_RULES) if file.name == name)
        return file.source, file.findings

    def findings(source: SourceFile) -> list[Finding]:
        return linted(source.text)[1]

    outcome = fix_source(linted(project[name])[0], findings, unsafe=True)
    assert [finding.code for finding, fault in outcome.reverted if "no longer be valid" in fault] == []
    assert parses(outcome.source.text)
    assert not fix_source(outcome.source, findings, unsafe=True).changed
