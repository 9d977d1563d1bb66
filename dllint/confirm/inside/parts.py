"""What values are made of: the items of containers, the attributes of objects, and some numbers of tensors."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor

from dllint.confirm.inside.devices import local

_MOST = 20  # items of a container, or attributes of an object


def leaves(
    value: Any, depth: int = 3, name: str = "", within: tuple[type[Any], ...] = (Mapping, list, tuple)
) -> Iterator[tuple[str, Any]]:
    """What nested dicts, lists and tuples hold, by what follows the name of the value."""
    if depth and isinstance(value, within):
        for key, part in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from leaves(part, depth - 1, f"{name}[{key!r}]", within)
    else:
        yield name, value


def tensors(value: Any, depth: int = 3) -> Iterator[Tensor]:
    """The tensors among them."""
    return (leaf for _, leaf in leaves(value, depth) if isinstance(leaf, Tensor))


def dicts(value: Any, depth: int = 2) -> Iterator[dict[Any, Any]]:
    """The dicts of a checkpoint: itself, and those inside."""
    if isinstance(value, dict):
        yield value
        for item in value.values() if depth else ():
            yield from dicts(item, depth - 1)


def has_optimizer(value: Any) -> bool:
    """Whether a checkpoint has the state of an optimizer that has stepped: it is one to resume from."""
    return any("param_groups" in part and bool(part.get("state")) for part in dicts(value))


def some(tensor: Tensor, most: int) -> Tensor:
    """Some elements from all over a tensor, of those that this rank has."""
    flat = local(tensor.detach()).reshape(-1)
    return flat[:: max(1, flat.numel() // most)][:most]


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


def unwrapped(module: Any) -> Any:
    """A model without the wrapper that DistributedDataParallel and its like put around it."""
    return getattr(module, "module", module)


def config_of(module: Any) -> Any:
    """The configuration that a model of a library keeps; None where it has none."""
    return getattr(unwrapped(module), "config", None)


def objects(classes: re.Pattern[str], attributes: tuple[str, ...]) -> list[Any]:
    """All that exists of classes whose name matches, and that keeps one of these attributes.

    So objects of libraries are found that need not be imported for it. Only types are asked, and what instances keep by
    themselves.
    """
    everything = gc.get_objects()
    kinds = {kind for kind in set(map(type, everything)) if classes.search(kind.__name__)}
    return [item for item in everything if type(item) in kinds and any(name in vars_of(item) for name in attributes)]
