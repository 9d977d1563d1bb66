"""Layers that take sequences: whether the batch or the time comes first, and what they return."""

from __future__ import annotations

from collections.abc import Sequence

from dllint.dataclass import dataclass
from dllint.interp.ask import axis_indexing, axis_moves
from dllint.interp.ask.shape import Shape
from dllint.interp.ask.sizes import Meaning, Size, of_axis
from dllint.interp.source.axis_facts import SequenceLayer, axis_facts
from dllint.values import Const, Instance, Items, Symbol, Value


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


def _is_order_told(layer: Value) -> bool:
    """Whether the code says which axis comes first, rather than leaving it to the default."""
    fact = sequence_layer(layer)
    if fact is None or not isinstance(layer, Instance):
        return False
    if fact.of:
        inner = layer.arguments.get(0, fact.of)
        return inner is not None and _is_order_told(inner)
    return layer.arguments.get(fact.batch_first, "batch_first") is not None


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
    """What a layer returns for each step. ``hidden`` is the size that it is made with.

    What its input is known to be counts for more than the order in which the layer takes it, and this counts only where
    the code tells it: who has left it to the default may have meant the other one. The height or width of an image says
    nothing of that order: its columns may be the steps.
    """
    fact, first = sequence_layer(layer), given.first(2)
    if fact is None or first is None or given.rank == 2:
        return None
    order = order_of(layer)
    told = [size.meaning if size.meaning in order else "" for size in first]
    is_other = any(each and each != meant for each, meant in zip(told, order, strict=True))
    is_known = any(told) or _is_order_told(layer)
    front = _meant(first, order[::-1] if is_other else order) if is_known else first
    last = given.axis(2) if not fact.is_recurrent else _in_both_directions(layer, hidden)
    return Shape((*front, (last or of_axis(result, 2)).meant("feature")))


def _in_both_directions(layer: Instance, hidden: Size | None) -> Size | None:
    is_both = is_bidirectional(layer)
    if is_both is None or hidden is None or layer.arguments.get(None, "proj_size") is not None:
        return None
    return Size(hidden.number * (2 if is_both else 1), hidden.factors)


def state_shape(
    result: Symbol, layer: Instance, given: Shape, hidden: Size | None, layers: Size | None
) -> Shape | None:
    """The state that a recurrent layer ends in: for each layer and direction, then the batch, whichever comes first.

    ``hidden`` and ``layers`` are the sizes that it is made with.
    """
    order, first = order_of(layer), given.first(2)
    if "batch" not in order or first is None or given.rank == 2:
        return None
    batch = first[order.index("batch")].meant("batch")
    is_both = is_bidirectional(layer)
    is_told = is_both is not None and layers is not None
    count = Size(layers.number * (2 if is_both else 1), layers.factors) if is_told and layers else of_axis(result, 0)
    return Shape((count.meant("layer"), batch, (hidden or of_axis(result, 2)).meant("feature")))


def _meant(sizes: Sequence[Size], meanings: Sequence[Meaning]) -> tuple[Size, ...]:
    return tuple(size.meant(meaning) for size, meaning in zip(sizes, meanings, strict=True))


_MAX_STEPS = 40
_POOLING = frozenset(("mean", "sum", "max", "amax", "median"))


@dataclass(frozen=True, slots=True)
class Steps:
    """The call of a layer that returns something for each step."""

    layer: Instance
    result: Symbol

    @property
    def given(self) -> Value:
        """What the layer is called with."""
        return self.result.inputs[1]


def layer_call(value: Value) -> Steps | None:
    """The call of a layer for sequences that a value is the result of."""
    layer = value.inputs[0] if isinstance(value, Symbol) and len(value.inputs) > 1 else None
    is_call = isinstance(value, Symbol) and value.name.endswith("()") and sequence_layer(layer or value) is not None
    return Steps(layer, value) if is_call and isinstance(value, Symbol) and isinstance(layer, Instance) else None


def steps_of(value: Value) -> Steps | None:
    """The layer whose outputs for each step a value holds, if no axis was moved since."""
    for _ in range(_MAX_STEPS):
        if not isinstance(value, Symbol) or not value.inputs:
            return None
        if value.name == "item":
            found = layer_call(value.inputs[0])
            return found if found is not None and value.detail == 0 and returns_pair(found.layer) else None
        found = layer_call(value)
        if found is not None:
            return None if returns_pair(found.layer) else found
        before = axis_moves.before_same_axes(value)
        if before is None:
            return None
        value = before
    return None


def pooled(value: Value) -> tuple[Steps, Symbol] | None:
    """The outputs of a layer of which a value is one step along axis 1, or a mean over it."""
    if not isinstance(value, Symbol) or not value.inputs:
        return None
    name = value.name.removeprefix("torch.").removeprefix(".")
    is_taken = value.name == "item" and _takes_second(value.inputs[1] if len(value.inputs) > 1 else value)
    is_mean = name in _POOLING and axis_moves.number(axis_moves.keyword(value, 0, "dim", "axis")) == 1
    found = steps_of(value.inputs[0]) if is_taken or is_mean else None
    return (found, value) if found is not None else None


def last_step(value: Value) -> Steps | None:
    """The outputs of a recurrent layer of which a value is the last step, in the order that the layer has."""
    taken = _taken(value)
    if taken is None:
        return None
    found, others, place = taken
    return found if _place(place) == -1 and all(map(axis_indexing.is_whole, others)) else None


def first_step(value: Value) -> Steps | None:
    """The outputs of a recurrent layer of which a value is the first step, or a part of it."""
    taken = _taken(value)
    return taken[0] if taken is not None and _place(taken[2]) == 0 else None


def _taken(value: Value) -> tuple[Steps, tuple[Value, ...], Value] | None:
    """The outputs of a layer that a value is taken from by an index, what the index takes of the other axes that it
    names, and what of the time."""
    if not isinstance(value, Symbol) or value.name != "item" or len(value.inputs) < 2:
        return None
    found, index = steps_of(value.inputs[0]), value.inputs[1]
    if found is None:
        return None
    parts = index.items if isinstance(index, Items) else (index,)
    axis = 0 if is_batch_first(found.layer) is False else 1
    is_told = axis < len(parts) and (axis == 0 or len(parts) < 4)
    return (found, (*parts[:axis], *parts[axis + 1 :]), parts[axis]) if is_told else None


def _takes_second(index: Value) -> bool:
    """Whether an index is ``[:, i]``, ``[:, [i]]`` or ``[:, i, :]``."""
    parts = index.items if isinstance(index, Items) else ()
    if len(parts) not in (2, 3) or not all(axis_indexing.is_whole(part) for part in (parts[0], *parts[2:])):
        return False
    return _place(parts[1]) is not None


def _place(part: Value) -> int | None:
    """The one place that a part of an index takes: ``-1`` or ``[-1]``."""
    is_list = isinstance(part, Items) and part.exact and len(part.items) == 1
    return axis_moves.number(part.items[0] if is_list and isinstance(part, Items) else part)
