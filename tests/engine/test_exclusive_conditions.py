"""Conditions that exclude each other: comparisons with lists of constants, and parts of a test with the whole."""

from __future__ import annotations

import ast

import pytest

from dllint.interp.run.guards import consistent, guards_of
from dllint.sites import Guards


def _guards(*tests: str) -> Guards:
    return tuple(guard for test in tests for guard in guards_of(ast.parse(test, mode="eval").body, True))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["kind == 'a'"], ["kind in ['b', 'c']"]),
        (["kind == 'a'"], ["kind not in ('a', 'b')"]),
        (["kind in ['a', 'b']"], ["kind in {'c', 'd'}"]),
        (["kind in ['a', 'b']"], ["kind not in ['c', 'b', 'a']"]),
        (["kind != 'a'"], ["kind in ['a']"]),
        (["kind != 'a'", "kind != 'b'"], ["kind in ['a', 'b']"]),
        (["many and count > 1"], ["not (many and count > 1)"]),
        (["many", "first", "count > 1"], ["not (many and count > 1)"]),
        (["not (many or count > 1)"], ["many or count > 1"]),
    ],
)
def test_conditions_that_exclude_each_other(one: list[str], other: list[str]) -> None:
    assert not consistent(_guards(*one), _guards(*other))
    assert not consistent(_guards(*other), _guards(*one))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["kind == 'a'"], ["kind in ['a', 'c']"]),
        (["kind == 'a'"], ["kind not in ['b', 'c']"]),
        (["kind in ['a', 'b']"], ["kind in ['b', 'c']"]),
        (["kind in ['a', 'b']"], ["kind not in ['b']"]),
        (["kind != 'a'"], ["kind in ['a', 'b']"]),
        (["kind != 'a'", "kind != 'b'"], ["kind in ['a', 'b', 'c']"]),
        (["kind == 'a'"], ["kind in 'bcd'"]),  # a text, of which it may be a part
        (["kind == 'a'"], ["kind in names"]),
        (["kind == name"], ["kind in ['b', 'c']"]),
        (["kind == 'a'"], ["kind in ['b', name]"]),
        (["kind == 'a'"], ["other in ['b', 'c']"]),
        (["many"], ["not (many and count > 1)"]),
        (["many", "count > 2"], ["not (many and count > 3)"]),
        (["many or count > 1"], ["not many"]),
    ],
)
def test_conditions_that_may_hold_together(one: list[str], other: list[str]) -> None:
    assert consistent(_guards(*one), _guards(*other))
    assert consistent(_guards(*other), _guards(*one))
