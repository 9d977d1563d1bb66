"""What random orders pick: each order keeps what it reorders, and that the stretches that are cut from it."""

from __future__ import annotations

from collections.abc import Iterator

from dllint.values import Symbol, Value

_ORDERS = ("permutation", "randperm")
_PICKED = "<picked"  # among the attributes of an order, and of what one has reordered


def is_order(value: Value) -> bool:
    """Whether a value is a random order of numbers, or of what was given: ``np.random.permutation(len(x))``."""
    return isinstance(value, Symbol) and value.name.rpartition(".")[2] in _ORDERS


def note_pick(value: Value) -> None:
    """Let an order know that something is put into it (``x[order]``), and what it reorders of the slices of that."""
    if not isinstance(value, Symbol) or value.name not in ("item", "slice") or not value.inputs:
        return
    base = value.inputs[0]
    holder = value.inputs[1] if value.name == "item" else base if is_order(base) or _is_reordered(base) else None
    if isinstance(holder, Symbol) and (value.name == "slice" or is_order(holder)):
        known = holder.attributes
        if all(each is not value for each in picked_by(holder)):
            known[f"{_PICKED} {len(known)}>"] = value


def picked_by(holder: Symbol) -> Iterator[Symbol]:
    """What an order has picked, or what slices were cut from what one has reordered."""
    for name, value in holder.attributes.items():
        if name.startswith(_PICKED) and isinstance(value, Symbol):
            yield value


def _is_reordered(value: Value) -> bool:
    return isinstance(value, Symbol) and value.name == "item" and is_order(value.inputs[1])
