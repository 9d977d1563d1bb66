"""What becomes of the axes of several tensors that are joined: put together, stacked, multiplied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dllint.interp.ask.axis_moves import Known, given_to, keyword, number, numbers
from dllint.interp.ask.collected import part
from dllint.interp.ask.layer_shapes import with_last
from dllint.interp.ask.shape import Shape
from dllint.interp.ask.sizes import Size, of_axis
from dllint.values import Items, Symbol, Value


def _joined(result: Symbol, shapes: Sequence[Shape], axis: int, *, are_all: bool) -> Shape | None:
    """Tensors one after the other along an axis, in which alone they differ; there may be more than are known."""
    whole = next((shape for shape in shapes if shape.rank is not None), None)
    if whole is None:
        return _joined_at_the_front(result, shapes[0], are_all=are_all and len(shapes) == 1) if axis == 0 else None
    place = whole.place(axis)
    if place is None:
        return None
    along = [shape.of_rank(len(whole.sizes)).axis(place) for shape in shapes]
    counts = [size.known for size in along if size is not None and size.known is not None]
    total = Size(sum(counts)) if are_all and len(counts) == len(along) else of_axis(result, place)
    joined = total.meant(whole.sizes[place].meaning)
    return Shape((*whole.sizes[:place], joined, *whole.sizes[place + 1 :]))


def _joined_at_the_front(result: Symbol, shape: Shape, *, are_all: bool) -> Shape | None:
    """The same where their number of axes is not known: all but the first are those of each of them."""
    if not shape.sizes or are_all:
        return shape if are_all else None
    return Shape(
        (of_axis(result, 0, meaning=shape.sizes[0].meaning), *shape.sizes[1:]), shape.rest_after(1), shape.back
    )


def _of_list(known: Known, result: Symbol) -> tuple[list[Shape], int | None, bool]:
    """The shapes of the tensors in the list that a function is given, its axis, and whether these are all of them."""
    listed = _listed(result)
    given = keyword(result, 0, "dim", "axis")
    axis = 0 if given is None else number(given)
    items = listed.items if isinstance(listed, Items) else ()
    return [known.of(each) for each in items], axis, isinstance(listed, Items) and listed.exact


def _listed(result: Symbol) -> Value | None:
    """The list of tensors or arrays that a function is given; what takes arrays calls it otherwise than torch."""
    given = result.arguments
    listed = given.get(0, "tensors") or given.keywords.get("arrays") if given is not None else result.inputs[0]
    put_in = part(listed) if isinstance(listed, Symbol) else None
    return put_in if put_in is not None else listed


def concatenated(known: Known, result: Symbol) -> Shape | None:
    """``torch.cat``."""
    shapes, axis, are_all = _of_list(known, result)
    return _joined(result, shapes, axis, are_all=are_all) if shapes and axis is not None else None


def stacked(known: Known, result: Symbol) -> Shape | None:
    """``torch.stack``, which adds an axis; that of the tensors in a list is its first one already."""
    shapes, axis, are_all = _of_list(known, result)
    listed = _listed(result)
    if isinstance(listed, Symbol) and axis == 0:
        return known.of(listed)
    whole = next((shape for shape in shapes if shape.rank is not None), None)
    if whole is None and shapes and axis == 0:
        count = Size(len(shapes)) if are_all else of_axis(result, 0)
        return Shape((count, *shapes[0].sizes), shapes[0].rest, shapes[0].back)
    if whole is None or axis is None:
        return None
    place = axis if axis >= 0 else axis + len(whole.sizes) + 1
    count = Size(len(shapes)) if are_all else of_axis(result, place)
    return Shape((*whole.sizes[:place], count, *whole.sizes[place:]))


def below_each_other(known: Known, result: Symbol) -> Shape | None:
    """``numpy.vstack``: numbers become a column, and rows a table."""
    shapes, _, are_all = _of_list(known, result)
    ranks = {shape.rank for shape in shapes}
    if len(ranks) != 1 or not ranks <= {0, 1}:
        return None
    return Shape((Size(len(shapes)) if are_all else of_axis(result, 0), *(shapes[0].sizes or (Size(),))))


def weighted(known: Known, result: Symbol) -> Shape | None:
    """``torch.nn.functional.linear``: as many features as the weight has rows."""
    weight = keyword(result, 0, "weight")
    rows = known.of(weight) if weight is not None else None
    if rows is None or rows.rank is None or rows.rank != 2:
        return None
    return with_last(result, known.of(result.inputs[0]), rows.sizes[0].meant("feature"))


_OF_RANK = {"torch.bmm": 3, "torch.mm": 2}


def multiplied(known: Known, result: Symbol) -> Shape | None:
    """The product of two matrices, or of batches of them."""
    if len(result.inputs) < 2:
        return None
    left, right = (known.of(each) for each in result.inputs[:2])
    if result.name in _OF_RANK:
        left, right = (each.of_rank(_OF_RANK[result.name]) for each in (left, right))
    elif left.rank is None or right.rank is None:
        told = next((rank for each in result.inputs[:2] if (rank := _rank_told(each)) is not None), None)
        if told is not None:
            left, right = (each.of_rank(told) for each in (left, right))
    last = right.axis(-1)
    if left.rank is None or right.rank is None or left.rank < 2 or last is None:
        return None
    if right.rank == 1:
        return Shape(left.sizes[:-1])
    if right.rank > left.rank:
        return None
    return Shape((*left.sizes[:-1], last))


def _rank_told(factor: Value) -> int | None:
    """How many axes a factor has whose last two were exchanged: ``query @ key.transpose(2, 3)``."""
    if not isinstance(factor, Symbol) or factor.name not in (".transpose", "torch.transpose"):
        return None
    places = numbers(given_to(factor))
    is_of_last = places is not None and len(places) == 2 and min(places) >= 0 and abs(places[0] - places[1]) == 1
    return max(places) + 1 if is_of_last and places is not None else None


OF_SEVERAL: Mapping[str, Callable[[Known, Symbol], Shape | None]] = {
    **dict.fromkeys(("torch.cat", "torch.concat", "torch.concatenate", "numpy.concatenate"), concatenated),
    **dict.fromkeys(("torch.stack", "numpy.stack"), stacked),
    **dict.fromkeys(("torch.vstack", "numpy.vstack"), below_each_other),
    "torch.nn.functional.linear": weighted,
    **dict.fromkeys(("@", "torch.matmul", "torch.bmm", "torch.mm"), multiplied),
}
