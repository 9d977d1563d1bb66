"""What is known on the way on where another way has left, and of a value that comes by more than one way."""

from __future__ import annotations

from dllint.assumptions import Assumption
from dllint.choices import Choice, choose, otherwise
from dllint.sites import Guard
from dllint.values import Const

TRUE, FALSE = Const(True), Const(False)


def condition(name: str, holds: bool = True, by_default: bool | None = None) -> Guard:
    return Guard(name, "truthy", None, holds, by_default=by_default)


def test_one_condition_fails_on_the_way_on() -> None:
    assert [guard.key() for guard in otherwise((condition("a"),))] == [condition("a", False).key()]


def test_that_one_of_several_conditions_fails_takes_nothing_for_granted() -> None:
    (guard,) = otherwise((condition("a"), condition("b")))
    assert (guard.assumption, guard.by_default) == (None, None)


def test_the_default_is_the_way_on_where_one_condition_fails_by_default() -> None:
    assert otherwise((condition("a", by_default=False), condition("b")))[0].by_default is True
    assert otherwise((condition("a", by_default=True), condition("b", by_default=True)))[0].by_default is False


def test_nothing_is_known_against_what_is_taken_for_granted() -> None:
    guessed = Guard("a", "==", 0, True, assumption=Assumption("alternative", "a value is 0"))
    assert otherwise((guessed, condition("b"))) == ()


def test_a_value_that_comes_by_two_ways_is_no_guess() -> None:
    ways = [(condition("a"),), (condition("a", False), condition("b")), (condition("a", False), condition("b", False))]
    value = choose([(ways[0], TRUE), (ways[1], TRUE), (ways[2], FALSE)])
    assert isinstance(value, Choice)
    assert [(option, [guard.assumption for guard in guards]) for guards, option in value.options] == [
        (TRUE, [None]),
        (FALSE, [None, None]),
    ]


def test_what_conditions_leave_is_worked_out_once() -> None:
    value = choose([((condition("a"),), TRUE), ((condition("a", False),), FALSE)])
    assert isinstance(value, Choice)
    given, asked = (condition("a"),), []
    for _ in range(2):
        assert value.narrowed(given, lambda guards: asked.append(guards) or guards[0].holds) is TRUE
    assert len(asked) == 2  # once for each option
    assert value.narrowed((condition("c"),), lambda guards: True) is value
