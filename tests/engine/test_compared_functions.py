"""Whether a function is another one is known, by its definition."""

from __future__ import annotations

from pathlib import Path

import pytest
from interpreting import run

from dllint.events import CallRefused

HEAD = """
def first(x):
    return x

def second(x):
    return x

def make():
    def inner(x):
        return x
    return inner

def save(path, model):
    return path

chosen = first
made, other = make(), make()
"""


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("chosen is first", True),
        ("chosen is not second", True),
        ("chosen in {first, second}", True),
        ("chosen is second", False),
        ("chosen == second", False),
        ("chosen in (second, make)", False),
        ("chosen not in [first]", False),
    ],
)
def test_what_is_known(tmp_path: Path, test: str, expected: bool) -> None:
    arms = ("save(1)", "pass"), ("pass", "save(1)")
    reached = [
        bool(run(tmp_path, f"{HEAD}\nif {test}:\n    {one}\nelse:\n    {other}\n").all_of(CallRefused))
        for one, other in arms
    ]
    assert reached == [expected, not expected]


@pytest.mark.parametrize("test", ["made is other", "chosen in (first, *load())", "chosen == [first]"])
def test_what_is_not_known(tmp_path: Path, test: str) -> None:
    assert run(tmp_path, f"{HEAD}\nif {test}:\n    save(1)\n").all_of(CallRefused)
    assert run(tmp_path, f"{HEAD}\nif {test}:\n    pass\nelse:\n    save(1)\n").all_of(CallRefused)
