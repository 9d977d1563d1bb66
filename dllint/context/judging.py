"""How sure a finding is, where a value has several origins."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dllint.findings import Confidence
from dllint.interp.ask.origins import Origin
from dllint.sites import Guards
from dllint.values import Items, Table, Value, alternatives


def judge(
    origins: Sequence[Origin], wrong: Callable[[Origin], bool], given: Guards = ()
) -> tuple[list[Origin], Confidence] | None:
    """Decide over all possible origins of a value whether it is wrong.

    All origins wrong is ``certain``. Some wrong is ``likely`` when these are the ones that the program's own defaults
    choose, and ``given``, the conditions of the place in question, hold by default as well; otherwise nothing is
    claimed, and the answer is ``None``.
    """
    bad = [origin for origin in origins if wrong(origin)]
    if not bad:
        return None
    if len(bad) == len(origins):
        return bad, "certain"
    if any(guard.by_default is False for guard in given):
        return None
    chosen = [origin for origin in bad if origin.guards and all(guard.by_default for guard in origin.guards)]
    return (chosen, "likely") if chosen else None


def likely_under(guards: Guards) -> Confidence:
    """``certain`` where the conditions hold by the program's own defaults (or there are none), else ``likely``."""
    return "certain" if all(guard.by_default for guard in guards) else "likely"


def flatten(value: Value | None) -> list[Value]:
    """The values inside lists, tuples and dicts, and the options of choices."""
    if value is None:
        return []
    if isinstance(value, Items):
        return [inner for item in value.items for inner in flatten(item)]
    if isinstance(value, Table):
        return [inner for item in value.entries().values() for inner in flatten(item)]
    return [option for _, option in alternatives(value)]
