"""Abstract values: what is left of a choice."""

from __future__ import annotations

from dllint.choices import Choice, present
from dllint.values import Absent, Const, Symbol


def test_a_choice_of_nothing_but_absences_is_unknown() -> None:
    left = present(Choice([((), Absent()), ((), Absent())]))
    assert isinstance(left, Symbol) and left.name == "unknown"


def test_what_is_there_is_left_of_a_choice() -> None:
    there = Const(1)
    assert present(Choice([((), Absent()), ((), there)])) is there
    otherwise = present(Choice([((), Absent()), ((), there)]), Const(2))
    assert isinstance(otherwise, Choice) and len(otherwise.options) == 2
