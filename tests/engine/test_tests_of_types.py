"""What a test of a type decides: only what a value certainly is, or certainly is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from interpreting import run

from dllint.events import CallRefused

PROGRAM = """
from elsewhere import load

def convert(value):
    return value

given, other = load("a"), load("b")
if isinstance({value}, {kind}):
    convert(given, other)
"""


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("given | other", "tuple"),
        ("given.params | {'term': other}", "(tuple, list)"),
        ("given.weight - other", "list"),
        ("-given", "str"),
        ("given @ other", "tuple"),
    ],
)
def test_what_an_operator_gives_is_no_sequence(tmp_path: Path, value: str, kind: str) -> None:
    assert not run(tmp_path, PROGRAM.format(value=value, kind=kind)).all_of(CallRefused)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("given", "tuple"),
        ("given + other", "tuple"),
        ("given * 2", "list"),
        ("given % other", "str"),
        ("given | other", "dict"),
        ("given | other", "(tuple, dict)"),
        ("given(other)", "tuple"),
    ],
)
def test_other_tests_may_hold(tmp_path: Path, value: str, kind: str) -> None:
    assert run(tmp_path, PROGRAM.format(value=value, kind=kind)).all_of(CallRefused)
