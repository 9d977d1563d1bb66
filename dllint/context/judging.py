"""How sure a finding is, where a value has several origins."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dllint.assumptions import Assumption, Assumptions
from dllint.choices import Choice, alternatives
from dllint.interp.ask.origins import Origin
from dllint.interp.run.guards import consistent
from dllint.sites import Guard, Guards
from dllint.values import Items, Symbol, Table, Value

_MAX_NESTED = 6


def judge(
    origins: Sequence[Origin], wrong: Callable[[Origin], bool], given: Guards = ()
) -> tuple[list[Origin], Assumptions] | None:
    """Decide over all possible origins of a value whether it is wrong, and what that takes for granted.

    Where all origins are wrong, nothing is: whichever it is. Where some are, these must be the ones; that they are what
    the program's own defaults choose is an assumption of one kind, that they are the ones at all one of another.
    ``given`` are the conditions of the place in question. The answer is ``None`` where nothing is wrong.
    """
    origins = [origin for origin in origins if consistent(origin.guards, given)] or origins
    bad = [origin for origin in origins if wrong(origin)]
    if not bad:
        return None
    if len(bad) == len(origins):
        return bad, ()
    by_default = [origin for origin in bad if origin.guards and all(guard.by_default for guard in origin.guards)]
    if by_default and not any(guard.by_default is False for guard in given):
        return by_default, assumed_under(by_default[0].guards)
    return bad, (Assumption("alternative", f"of {len(origins)} ways to get there, one of {len(bad)} is taken"),)


def assumed_under(guards: Guards) -> Assumptions:
    """What is assumed by whoever takes some conditions to hold: their default, or that they hold at all."""
    return tuple(
        guard.assumption
        or (
            Assumption("default", f"`{_text(guard)}`, as by default", asks="reached")
            if guard.by_default
            else Assumption("alternative", f"`{_text(guard)}`", asks="reached")
        )
        for guard in guards
    )


def ways(value: Value) -> list[tuple[Guards, Value]]:
    """All that a value may be, as `alternatives`, also where that is too much for a choice.

    Ways whose conditions exclude each other are left out.
    """
    return [(guards, option) for guards, option in _all_ways(value) if consistent(guards, guards)]


def _all_ways(value: Value) -> Iterator[tuple[Guards, Value]]:
    for guards, option in alternatives(value):
        if not isinstance(option, Symbol) or option.name != "unknown" or not isinstance(option.detail, tuple):
            yield guards, option
            continue
        for more, inner in zip(option.detail, option.inputs, strict=True):
            yield from ((guards + more + further, each) for further, each in _all_ways(inner))


def _text(guard: Guard) -> str:
    """A condition as people write it, without the scope that its variables are told apart by."""
    return str(guard).replace(f"{guard.subject}", guard.subject.rpartition(":")[2])


def flatten(value: Value | None, depth: int = _MAX_NESTED) -> list[Value]:
    """The values inside lists, tuples and dicts, however nested, and the options of choices; else the value itself."""
    if value is None or depth < 0:
        return []
    if isinstance(value, Items):
        return [inner for item in value.items for inner in flatten(item, depth - 1)]
    if isinstance(value, Table):
        return [inner for item in value.contents.values() for inner in flatten(item, depth - 1)]  # unknown keys, too
    if isinstance(value, Choice):
        return [inner for _, option in value.options for inner in flatten(option, depth - 1)]
    return [value]
