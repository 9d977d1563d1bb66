"""Where ways through a program meet: what values, containers and expressions are after that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dllint.choices import choose
from dllint.sites import Guard, Guards, Site
from dllint.values import Absent, Entries, OpenAttributes, Value

MISSING: Any = object()


class CallError(Exception):
    """Python raises here, certainly: control leaves as it does by ``raise``.

    A call is refused: the arguments do not fit, or this is nothing that can be called. Or something is not there: a
    name in the file that it is imported from, an option that is read, a part of a tuple that is unpacked.
    """

    def __init__(self, site: Site) -> None:
        super().__init__(str(site))
        self.site = site


def distinguished(arms: list[tuple[Guards, Any]], site: Site) -> list[tuple[Guards, Any]]:
    """Arms of a branch, or options of a choice, none of which comes about unconditionally where there are several."""
    if len(arms) == 1 or all(guards for guards, _ in arms):
        return arms
    subject = f"way at {site.path}:{site.line}:{getattr(site.node, 'col_offset', 0)}"
    return [(guards or (Guard(subject, "==", index, True),), body) for index, (guards, body) in enumerate(arms)]


def outcome_of(outcomes: Sequence[Any], guards: Sequence[Guards], site: Site) -> Value:
    """The value of an expression that is evaluated in arms, of those arms that have one.

    Raises:
        CallError: none of them has, as each ends in a call that cannot be made.
    """
    options = [(under, result) for under, (left, result, _) in zip(guards, outcomes, strict=True) if left is None]
    if not options:
        raise CallError(site)
    return choose(options)


def unset_options(container: dict[Any, Any], key: Any, options: list[tuple[Guards, Any]]) -> list[tuple[Guards, Any]]:
    """What stands for an entry on the paths that did not set it, where others did more than read it."""
    if isinstance(container, OpenAttributes):
        if all(value is MISSING or container.is_read(value) for _, value in options):
            return []
    elif not isinstance(container, Entries):
        return []
    unset = container.unset(key)
    return [(guards, unset) for guards, value in options if value is MISSING]


def agree(options: list[tuple[Guards, Any]]) -> bool:
    """Whether all paths have the same object."""
    first = options[0][1]
    if len(options) == 2:  # nearly always, and this is asked for every variable of every branch
        return options[1][1] is first
    return all(value is first for _, value in options)


def join_values(options: list[tuple[Guards, Any]], before: Any = MISSING) -> Any:
    """Join what different paths wrote to one place: values, or what is in a container, where ``before`` was."""
    first = options[0][1]
    if agree(options):
        return first
    if isinstance(first, Value):
        return choose(options)
    if isinstance(first, tuple):
        is_as_long = isinstance(before, tuple) and all(len(items) == len(before) for _, items in options)
        return _join_replaced(options) if is_as_long else _join_items(options)
    return False if isinstance(first, bool) else first


def _join_replaced(options: list[tuple[Guards, tuple[Value, ...]]]) -> tuple[Value, ...]:
    """Join the items of a list of which branches replaced some: each is one of those that were put in its place."""
    places = zip(*(items for _, items in options), strict=True)
    guards = [each for each, _ in options]
    return tuple(join_values(list(zip(guards, place, strict=True))) for place in places)


def _join_items(options: list[tuple[Guards, tuple[Value, ...]]]) -> tuple[Value, ...]:
    """Join the items of a list that branches extended: the additions of each become conditional."""
    shortest = min((items for _, items in options), key=len)
    common = 0
    while common < len(shortest) and all(items[common] is shortest[common] for _, items in options):
        common += 1
    joined = list(shortest[:common])
    for guards, items in options:
        others = [(more, Absent()) for more, rest in options if rest is not items]
        joined.extend(choose([(guards, item), *others]) for item in items[common:])
    return tuple(joined)
