"""What values are made of: the items of containers, and the attributes of objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

_MOST = 20  # items of a container, or attributes of an object


def tensors(value: Any, depth: int = 3) -> Iterator[Tensor]:
    """The tensors in nested dicts, lists and tuples."""
    if isinstance(value, Tensor):
        yield value
    elif depth and isinstance(value, (Mapping, list, tuple)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from tensors(part, depth - 1)


def parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The first parts of a value, by what follows its name."""
    if isinstance(value, (list, tuple)):
        yield from ((f"[{number}]", item) for number, item in enumerate(value[:_MOST]))
    elif isinstance(value, dict):
        yield from ((f"[{key!r}]", value[key]) for key in list(value)[:_MOST])
    else:
        yield from ((f".{name}", item) for name, item in list(vars_of(value).items())[:_MOST])


def vars_of(value: Any) -> dict[str, Any]:
    """The attributes that an object keeps by itself. Asking for any other may run code of its own."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}
