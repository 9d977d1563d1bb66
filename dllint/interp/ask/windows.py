"""Windows of a sequence that overlap: slices between ``i`` and ``i + n`` for one ``i`` after the other."""

from __future__ import annotations

from collections.abc import Iterator

from dllint.interp.run.graph import sources
from dllint.values import Const, Setting, Symbol, Value

_MAX_SOURCES = 200


def overlapping_windows(value: Value) -> Iterator[Symbol]:
    """The slices in a value, or in a sample of a dataset, that share most of what they hold with the next one."""
    for source in sources(value, _MAX_SOURCES):
        if isinstance(source, Symbol) and source.name == "slice" and len(source.inputs) >= 3:
            first, end = source.inputs[1:3]
            length = _length(first, end)
            if length is not None and _overlap(first, length):
                yield source


def _length(first: Value, end: Value) -> Value | None:
    """The length of a slice that begins at what is counted or asked for: of ``[i : i + n]`` it is ``n``."""
    is_moving = isinstance(first, Symbol) and first.name in ("counter", "index")
    if not is_moving or not isinstance(end, Symbol) or end.name != "+" or len(end.inputs) != 2:
        return None
    rest = [each for each in end.inputs if each is not first]
    return rest[0] if len(rest) == 1 else None


def _overlap(first: Value, length: Value) -> bool:
    """Whether a window is longer than the step to the next one."""
    step = _number(first.inputs[2]) if isinstance(first, Symbol) and len(first.inputs) == 3 else 1
    count = _number(length)
    return step is not None and (step < count if count is not None else step == 1)


def _number(value: Value) -> int | None:
    default = value.default if isinstance(value, Setting) else value
    return default.value if isinstance(default, Const) and isinstance(default.value, int) else None
