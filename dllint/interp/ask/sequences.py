"""Layers that take sequences: whether the batch or the time comes first, and what they return."""

from __future__ import annotations

from collections.abc import Sequence

from dllint.interp.ask.shape import Shape
from dllint.interp.ask.sizes import Meaning, Size, of_axis
from dllint.interp.source.axis_facts import SequenceLayer, axis_facts
from dllint.values import Const, Instance, Symbol, Value


def sequence_layer(layer: Value) -> SequenceLayer | None:
    """What is known of the class of a layer that takes sequences."""
    return axis_facts().sequence.get(layer.library_name) if isinstance(layer, Instance) else None


def is_batch_first(layer: Value) -> bool | None:
    """Whether a layer wants the batch before the time; ``None`` where that is not known."""
    fact = sequence_layer(layer)
    if fact is None or not isinstance(layer, Instance) or not layer.arguments.exact:
        return None
    if fact.of:
        inner = layer.arguments.get(0, fact.of)
        return is_batch_first(inner) if inner is not None else None
    told = layer.arguments.get(fact.batch_first, "batch_first")
    if told is None:
        return False
    return bool(told.value) if isinstance(told, Const) else None


def returns_pair(layer: Value) -> bool:
    """Whether a layer returns more than its outputs: a state, or weights."""
    fact = sequence_layer(layer)
    return fact is not None and (fact.is_recurrent or getattr(layer, "library_name", "").endswith("Attention"))


def is_bidirectional(layer: Instance) -> bool | None:
    """Whether a recurrent layer reads in both directions; ``None`` where that is not known."""
    fact = sequence_layer(layer)
    if fact is None or fact.batch_first is None or not layer.arguments.exact:
        return None
    told = layer.arguments.get(fact.batch_first + 2, "bidirectional")
    return False if told is None else bool(told.value) if isinstance(told, Const) else None


def order_of(layer: Value) -> tuple[Meaning, Meaning]:
    """What the first two axes mean that a layer takes and returns."""
    found = is_batch_first(layer)
    return ("", "") if found is None else ("batch", "time") if found else ("time", "batch")


def output_shape(result: Symbol, layer: Instance, given: Shape, hidden: Size | None) -> Shape | None:
    """What a layer returns for each step. ``hidden`` is the size that it is made with."""
    fact, first = sequence_layer(layer), given.first(2)
    if fact is None or first is None or given.rank == 2:
        return None
    front = _meant(first, order_of(layer))
    last = given.axis(2) if not fact.is_recurrent else _in_both_directions(layer, hidden)
    return Shape((*front, (last or of_axis(result, 2)).meant("feature")))


def _in_both_directions(layer: Instance, hidden: Size | None) -> Size | None:
    is_both = is_bidirectional(layer)
    if is_both is None or hidden is None or layer.arguments.get(None, "proj_size") is not None:
        return None
    return Size(hidden.number * (2 if is_both else 1), hidden.factors)


def state_shape(result: Symbol, layer: Instance, given: Shape, hidden: Size | None) -> Shape | None:
    """The state that a recurrent layer ends in: for each layer and direction, then the batch, whichever comes first."""
    order, first = order_of(layer), given.first(2)
    if "batch" not in order or first is None or given.rank == 2:
        return None
    batch = first[order.index("batch")].meant("batch")
    return Shape((of_axis(result, 0, meaning="layer"), batch, (hidden or of_axis(result, 2)).meant("feature")))


def _meant(sizes: Sequence[Size], meanings: Sequence[Meaning]) -> tuple[Size, ...]:
    return tuple(size.meant(meaning) for size, meaning in zip(sizes, meanings, strict=True))
