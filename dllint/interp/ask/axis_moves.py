"""What operations do to the axes of a tensor: move, split, join, add and remove them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from dllint.interp.ask.shape import Shape, combined
from dllint.interp.ask.sizes import Size, of_axis, product, without_common
from dllint.interp.source.axis_facts import axis_facts
from dllint.values import Const, Items, Symbol, Value


class Known(Protocol):
    """What a move may ask: the shapes of other tensors, and the sizes that values mean."""

    def of(self, tensor: Value) -> Shape:
        """The axes of a tensor."""

    def sizes(self, given: Sequence[Value]) -> list[Size | None] | None:
        """The sizes that are given to ``view`` and its like; ``None`` stands for ``-1``."""


Move = Callable[[Known, Symbol, Shape], Shape | None]


def given_to(result: Symbol) -> tuple[Value, ...]:
    """The positional arguments of an operation after the tensor, spelled out where they stand in a tuple."""
    arguments = result.arguments
    if arguments is None:
        given = result.inputs[1:]
    else:
        given = arguments.positional if result.name.startswith(".") else arguments.positional[1:]
    return given[0].items if len(given) == 1 and isinstance(given[0], Items) and given[0].exact else given


def keyword(result: Symbol, position: int, *names: str) -> Value | None:
    """An argument of an operation after the tensor, by its position or one of its names."""
    arguments = result.arguments
    if arguments is not None:
        for name in names:
            if name in arguments.keywords:
                return arguments.keywords[name]
    after = position if result.name.startswith(".") or arguments is None else position + 1
    given = result.inputs[1:] if arguments is None else arguments.positional
    return given[after] if after < len(given) else None


def number(value: Value | None) -> int | None:
    """A whole number."""
    is_whole = isinstance(value, Const) and isinstance(value.value, int) and not isinstance(value.value, bool)
    return value.value if is_whole and isinstance(value, Const) else None


def numbers(given: Sequence[Value]) -> list[int] | None:
    """Whole numbers, if they are all."""
    found = [each for each in map(number, given) if each is not None]
    return found if len(found) == len(given) else None


def before_same_axes(value: Symbol) -> Value | None:
    """What an operation or layer was applied to that leaves all axes as they are, like an activation."""
    facts, name = axis_facts(), value.name
    if name.endswith("()"):
        return value.inputs[1] if name.removesuffix("()") in facts.same_modules and len(value.inputs) > 1 else None
    is_same = name in facts.same_functions or (name[0] == "." and name[1:] in facts.same_methods)
    return value.inputs[0] if is_same else None


def squeezed(value: Value, force: Callable[[Value], Value]) -> Iterator[Symbol]:
    """The ``squeeze()`` without an axis behind a value, if only what keeps the number of axes came after it."""
    while isinstance(value, Symbol) and value.inputs:
        forced = force(value)
        if forced is not value:
            value = forced
            continue
        is_squeeze = value.name in (".squeeze", "torch.squeeze")
        if is_squeeze and not given_to(value) and keyword(value, 0, "dim", "axis") is None:
            yield value
            return
        before = before_same_axes(value)
        if before is None and value.name.removesuffix("()") in axis_facts().features and len(value.inputs) > 1:
            before = value.inputs[1]
        if before is None:
            return
        value = before


def _complete(sizes: Sequence[Size | None]) -> tuple[Size, ...] | None:
    known = tuple(size for size in sizes if size is not None)
    return known if len(known) == len(sizes) else None


# ---------------------------------------------------------------------------------------------- moves of a tensor


def _reshaped(known: Known, result: Symbol, shape: Shape) -> Shape | None:
    sizes = known.sizes(given_to(result))
    if sizes is None or sizes.count(None) > 1:
        return None
    if None in sizes:
        at = sizes.index(None)
        left = _what_is_left(shape, [size for size in sizes if size is not None])
        sizes[at] = left or of_axis(result, at)
    return Shape(tuple(_as_before(size, shape) for size in sizes if size is not None))


def _what_is_left(shape: Shape, sizes: Sequence[Size]) -> Size | None:
    """The size that ``-1`` stands for, where all axes are known."""
    if shape.rest is not None:
        return None
    left, surplus = without_common(product(shape.sizes), product(sizes))
    return left if surplus == Size() else None


def _as_before(size: Size, shape: Shape) -> Size:
    """A size with the meaning of the axis that has it."""
    same = [known for known in shape.sizes if known.same(size) and size.is_atomic]
    return size.meant(same[0].meaning) if len(same) == 1 and not size.meaning else size


def _permuted(known: Known, result: Symbol, shape: Shape) -> Shape | None:
    order = numbers(given_to(result))
    if not order:
        return None
    whole = shape.of_rank(len(order))
    sizes = _complete([whole.axis(index) for index in order])
    return Shape(sizes) if sizes is not None else None


def _transposed(known: Known, result: Symbol, shape: Shape) -> Shape | None:
    pair = numbers(given_to(result))
    return _exchanged(result, shape, *pair) if pair and len(pair) == 2 else None


def _exchanged(result: Symbol, shape: Shape, first: int, second: int) -> Shape | None:
    if shape.rest is not None and first < 0 and second < 0:
        return _exchanged_at_the_end(shape, first, second)
    places = [shape.place(index) for index in (first, second)]
    if None in places:
        return None
    pair = [place for place in places if place is not None]
    count = max(*pair, len(shape.sizes) - 1) + 1
    sizes = list(shape.first(count) or ())
    if not sizes:
        return None
    sizes[pair[0]], sizes[pair[1]] = sizes[pair[1]], sizes[pair[0]]
    return Shape(tuple(sizes), shape.rest_after(count) if not shape.back else (result, count))


def _exchanged_at_the_end(shape: Shape, first: int, second: int) -> Shape | None:
    sizes = list(shape.back)
    if max(-first, -second) > len(sizes):
        return None
    sizes[first], sizes[second] = sizes[second], sizes[first]
    return Shape(shape.sizes, shape.rest, tuple(sizes))


def _unsqueezed(known: Known, result: Symbol, shape: Shape) -> Shape | None:
    index = number(keyword(result, 0, "dim", "axis"))
    if index is None:
        return None
    if index < 0:
        if shape.rank is None:
            return Shape(shape.sizes, shape.rest, (*shape.back, Size())) if index == -1 else None
        index += shape.rank + 1
    if shape.back:
        return None
    count = max(index, len(shape.sizes))
    sizes = shape.first(count)
    return None if sizes is None else Shape((*sizes[:index], Size(), *sizes[index:]), shape.rest_after(count))


def _squeezed(known: Known, result: Symbol, shape: Shape) -> Shape | None:
    """An axis that is named has one step, or nobody would squeeze it; without a name all must be known.

    Only that of the samples may be squeezed for the one that has no others, and have more in training.
    """
    index = number(keyword(result, 0, "dim", "axis"))
    if index == 0 and shape.is_batch and shape.sizes[0].known is None:
        return None
    if shape.rank is None:
        is_matrix = shape.is_layer_output and shape.back == (Size(),) and shape.rest is not None
        if is_matrix and shape.rest is not None and (index in (1, -1) or (index is None and shape.is_column)):
            return Shape(shape.sizes or (of_axis(shape.rest[0], 0),))
        before = shape.first(max(index + 1, len(shape.sizes))) if index is not None and index >= 0 else None
        if before is None or index is None or before[index].known not in (None, 1):
            return None
        return Shape(before[:index] + before[index + 1 :], shape.rest_after(len(before)))
    if index is None:
        return Shape(tuple(size for size in shape.sizes if size != Size())) if not given_to(result) else None
    place = shape.place(index)
    if place is None:
        return None
    known_size = shape.sizes[place].known
    return shape if known_size not in (None, 1) else Shape(shape.sizes[:place] + shape.sizes[place + 1 :])


def flattened(result: Symbol, shape: Shape, start: int, end: int) -> Shape | None:
    """A tensor with some axes joined to one."""
    if shape.rank is not None:
        first, last = shape.place(start), shape.place(end)
        if first is None or last is None:
            return None
        return Shape((*shape.sizes[:first], product(shape.sizes[first : last + 1]), *shape.sizes[last + 1 :]))
    if start < 0 or end != -1:
        return None
    before = shape.first(start)
    return Shape((*before, of_axis(result, start))) if before is not None else None


def _flattened(known: Known, result: Symbol, shape: Shape) -> Shape | None:
    start, end = keyword(result, 0, "start_dim"), keyword(result, 1, "end_dim")
    first = 0 if start is None else number(start)
    last = -1 if end is None else number(end)
    return flattened(result, shape, first, last) if first is not None and last is not None else None


def _expanded(known: Known, result: Symbol, shape: Shape) -> Shape | None:
    sizes = known.sizes(given_to(result))
    if sizes is None or (shape.rank is not None and len(sizes) < shape.rank):
        return None
    whole = shape.of_rank(len(sizes))
    ours = [whole.axis(index - len(sizes)) for index in range(len(sizes))]
    pairs = enumerate(zip(sizes, ours, strict=True))
    return Shape(tuple(size or old or of_axis(result, index) for index, (size, old) in pairs))


def _turned(known: Known, result: Symbol, shape: Shape) -> Shape | None:
    return Shape(shape.sizes[::-1]) if shape.rank is not None else None


# ------------------------------------------------------------------------------------------------- reductions


def _reduced(known: Known, result: Symbol, shape: Shape) -> Shape | None:
    """What a sum or mean over some axes leaves of a tensor."""
    given = keyword(result, 0, "dim", "axis")
    if given is None:
        return Shape(())
    axes = numbers(given.items if isinstance(given, Items) else (given,))
    keep = keyword(result, 1, "keepdim", "keepdims")
    if axes is None or not (keep is None or isinstance(keep, Const)):
        return None
    is_kept = isinstance(keep, Const) and bool(keep.value)
    if shape.rank is None:
        return _reduced_at_unknown_rank(shape, axes, is_kept=is_kept)
    places = {shape.place(axis) for axis in axes}
    if None in places:
        return None
    if is_kept:
        return Shape(tuple(Size() if index in places else size for index, size in enumerate(shape.sizes)))
    return Shape(tuple(size for index, size in enumerate(shape.sizes) if index not in places))


def _reduced_at_unknown_rank(shape: Shape, axes: Sequence[int], *, is_kept: bool) -> Shape | None:
    """What a linear layer makes of a batch is taken for a matrix, if its axis 1 is the one."""
    if list(axes) == [-1] and is_kept and shape.back:
        return Shape(shape.sizes, shape.rest, (*shape.back[:-1], Size()))
    is_matrix = shape.is_layer_output and shape.rest is not None and not _is_embedded(shape.rest[0])
    if list(axes) in ([1], [-1]) and is_matrix and shape.rest is not None:
        rows = shape.sizes or (of_axis(shape.rest[0], 0),)
        return Shape((*rows, Size()) if is_kept else rows)
    before = shape.first(axes[0]) if len(axes) == 1 and axes[0] >= 0 and is_kept and not shape.back else None
    return Shape((*before, Size()), shape.rest_after(axes[0] + 1)) if before is not None else None


def _is_embedded(value: Value) -> bool:
    """Whether an embedding has made a value: it adds an axis to what is at least a row, so that it is no matrix."""
    return isinstance(value, Symbol) and value.name.startswith("torch.nn.Embedding")


def _indexed_by_maximum(known: Known, result: Symbol, shape: Shape) -> Shape | None:
    """``argmax`` over an axis, or ``max`` with an axis, whose values and indices have one shape."""
    given = keyword(result, 0, "dim", "axis")
    if given is not None and number(given) is None:  # `torch.max(x, y)`
        return combined(shape, known.of(given), result)
    return _reduced(known, result, shape)


def gathered(known: Known, result: Symbol, shape: Shape) -> Shape | None:
    """What is taken out of each row: one number, where the place of it is given as ``actions.unsqueeze(1)``.

    Of a matrix, places of which nothing more is known are taken for one in each row, as actions in a memory are; where
    nothing at all is, that may be of one sample.
    """
    index = keyword(result, 1, "index")
    if index is None:
        return None
    places = known.of(index)
    is_one = places.rank is None and len(places.sizes) == 2 and places.sizes[1] == Size()
    is_along_row = number(keyword(result, 0, "dim")) in (1, -1)
    if is_one and is_along_row:
        return Shape(places.sizes)
    if is_along_row and not places.sizes and places.back == (Size(),):  # `actions.unsqueeze(-1)`
        return Shape((of_axis(result, 0), Size()))
    is_output = shape.is_layer_output and shape.rest is not None and not _is_embedded(shape.rest[0])
    is_matrix = is_output or shape.rank == 2  # as after a layer that flattens all axes but the first
    if is_along_row and is_matrix and places.is_batch and len(places.sizes) == 1 and not places.back:
        return Shape((*places.sizes, Size()))
    if is_along_row and is_matrix and places.is_unknown:
        return Shape((), (result, 0), (Size(),))
    return None if places.is_unknown else places


MOVES: Mapping[str, Move] = {
    "view": _reshaped,
    "reshape": _reshaped,
    "permute": _permuted,
    "transpose": _transposed,
    "swapaxes": _transposed,
    "swapdims": _transposed,
    "t": _turned,
    "unsqueeze": _unsqueezed,
    "squeeze": _squeezed,
    "flatten": _flattened,
    "ravel": _flattened,
    "expand": _expanded,
    "gather": gathered,
    **dict.fromkeys(("sum", "mean", "prod", "std", "var", "amax", "amin", "logsumexp", "any", "all"), _reduced),
    **dict.fromkeys(("max", "min", "argmax", "argmin", "median", "mode"), _indexed_by_maximum),
}
"""By the name of a method, or of a function of torch: what it makes of the axes of its tensor."""
