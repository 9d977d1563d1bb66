"""How a dataset reads what it holds, and what it says of its length."""

from __future__ import annotations

import ast
import textwrap

import pytest

from dllint.interp.source.sample_caches import sample_caches
from dllint.interp.source.sample_reads import counted_attribute, declared_length, sample_reads


def dataset(body: str) -> ast.ClassDef:
    owner = ast.parse("class Data:\n" + textwrap.indent(textwrap.dedent(body), "    ")).body[0]
    assert isinstance(owner, ast.ClassDef)
    return owner


def reading(statements: str) -> list[tuple[str, str]]:
    method = dataset("def __getitem__(self, i):\n" + textwrap.indent(statements, "    ")).body[0]
    assert isinstance(method, ast.FunctionDef)
    return [(read.name, read.at) for read in sample_reads(method)]


@pytest.mark.parametrize(
    ("index", "at"),
    [
        ("i", "index"),
        ("i + 1", "ahead"),
        ("i + self.k", "ahead"),
        ("i:i + self.k", "window"),
        ("i:i + 1", "index"),
        ("i * self.k", "multiple"),
        ("i // self.k", "fraction"),
        ("i - 1", "other"),
        ("len(i) + 2", "other"),
    ],
)
def test_where_a_sample_is_read(index: str, at: str) -> None:
    assert reading(f"return self.rows[{index}]") == [("rows", at)]


def test_variables_are_followed() -> None:
    assert reading("start = i * self.k\nreturn self.rows[start:start + self.k]") == [("rows", "multiple")]


@pytest.mark.parametrize(
    "check",
    [
        "i = i % 3",
        "assert i < len(self.rows)",
        "if i > 2:\n    return None",
        "j = min(i, 2)",
        "try:\n    pass\nfinally:\n    pass",
    ],
)
def test_where_the_index_is_checked_nothing_is_said(check: str) -> None:
    assert reading(f"{check}\nreturn self.rows[i]") == []


@pytest.mark.parametrize(
    ("length", "name"),
    [("len(self.rows)", "rows"), ("self.rows.shape[0]", "rows"), ("self.size", "rows"), ("len(self.rows) - 1", "")],
)
def test_what_a_length_counts(length: str, name: str) -> None:
    owner = dataset(
        f"""
        def __init__(self, rows):
            self.rows = rows
            self.size = len(self.rows)

        def __len__(self):
            return {length}
        """
    )
    declared = declared_length(owner)
    assert declared is not None
    assert counted_attribute(declared) == name


@pytest.mark.parametrize(
    ("made", "names"), [("{}", ["kept"]), ("[None] * 9", ["kept"]), ("dict(rows)", []), ("[0] * 9", [])]
)
def test_what_is_a_cache(made: str, names: list[str]) -> None:
    owner = dataset(
        f"""
        def __init__(self, rows):
            self.kept = {made}

        def __getitem__(self, i):
            self.kept[i] = load(i)
            return self.kept[i]
        """
    )
    assert [name for name, _ in sample_caches(owner)] == names
