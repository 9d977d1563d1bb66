"""Windows of a sequence that overlap: slices between ``i`` and ``i + n`` for one ``i`` after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dllint.interp.ask.attempts import returned
from dllint.interp.run.graph import sources
from dllint.values import Const, Items, Setting, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_MAX_SOURCES = 200


def overlapping_windows(machine: Machine, value: Value) -> Iterator[Symbol]:
    """The slices in a value, or in a sample of a dataset, that share most of what they hold with the next one.

    What a function returns counts that was not entered, as one that cuts windows and has no word of any rule.
    """
    for source in _sources(machine, value):
        bounds = bounds_of(source)
        if isinstance(source, Symbol) and bounds is not None:
            first, end = bounds
            length = _length(first, end, "+") or _length(end, first, "-")
            if length is not None and _overlap(first if _is_counted(first) else end, length):
                yield source


def bounds_of(value: Value) -> tuple[Value, Value] | None:
    """Where a slice begins and ends, along the first axis if it is one of several: ``x[i : i + n, :]``."""
    if not isinstance(value, Symbol) or value.name not in ("slice", "item"):
        return None
    bounds = value.inputs[1:]
    if value.name == "item":
        index = value.inputs[1] if len(value.inputs) > 1 else None
        first = index.items[0] if isinstance(index, Items) and index.items else None
        given = first.arguments if isinstance(first, Symbol) and first.name == "unknown" else None
        bounds = given.positional if given is not None else ()
    return (bounds[0], bounds[1]) if len(bounds) >= 2 else None


def _sources(machine: Machine, value: Value) -> Iterator[Value]:
    for source in sources(value, _MAX_SOURCES):
        yield source
        inside = returned(machine, source)
        if inside is not None:
            yield from sources(inside, _MAX_SOURCES)


def _length(counted: Value, other: Value, operator: str) -> Value | None:
    """The length of a slice that begins or ends at what is counted or asked for.

    Of ``[i : i + n]`` and of ``[i - n : i]`` it is ``n``.
    """
    if not _is_counted(counted) or not isinstance(other, Symbol) or other.name != operator or len(other.inputs) != 2:
        return None
    if operator == "-" and other.inputs[0] is not counted:
        return None
    rest = [each for each in other.inputs if each is not counted]
    return rest[0] if len(rest) == 1 else None


def _is_counted(value: Value) -> bool:
    return isinstance(value, Symbol) and value.name in ("counter", "index")


def _overlap(first: Value, length: Value) -> bool:
    """Whether a window is longer than the step to the next one."""
    step = _number(first.inputs[2]) if isinstance(first, Symbol) and len(first.inputs) == 3 else 1
    count = _number(length)
    return step is not None and (step < count if count is not None else step == 1)


def _number(value: Value) -> int | None:
    default = value.default if isinstance(value, Setting) else value
    return default.value if isinstance(default, Const) and isinstance(default.value, int) else None
