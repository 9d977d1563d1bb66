"""What checkpoints are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_DEPTH = 2  # dicts inside of what is saved


def dicts(value: Any, depth: int = _DEPTH) -> Iterator[dict[Any, Any]]:
    """The dicts of a checkpoint: itself, and those inside."""
    if isinstance(value, dict):
        yield value
        if depth:
            for item in value.values():
                yield from dicts(item, depth - 1)


def has_optimizer(value: Any) -> bool:
    """Whether a checkpoint has the state of an optimizer that has stepped: it is one to resume from."""
    return any("param_groups" in part and bool(part.get("state")) for part in dicts(value))
