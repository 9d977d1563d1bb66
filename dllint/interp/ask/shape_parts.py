"""Sizes that are given as parts of a shape: ``x.reshape((-1, *x.shape[2:]))``, ``x.view(y.shape[:2] + (-1,))``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dllint.forms import is_part_of_shape, shaped_tensor
from dllint.interp.ask.axis_moves import number
from dllint.interp.ask.shape import Shape
from dllint.interp.ask.sizes import Size, of_axis, product, without_common
from dllint.values import Const, Items, Symbol, Value

Part = Shape | Value
"""A piece of a shape, or a single size."""


def parts_given(given: Sequence[Value], shape_of: Callable[[Value], Shape], *, exact: bool) -> list[Part] | None:
    """The sizes that ``view`` and its like are given, if all of them are told and some stand for several axes.

    ``exact`` says that there is no star among the arguments.
    """
    parts = [part for each in given for part in _parts(each if exact else _starred(each), shape_of)]
    told = [part for part in parts if part is not None]
    return told if len(told) == len(parts) and any(isinstance(part, Shape) for part in told) else None


def reshaped(
    result: Symbol, shape: Shape, parts: Sequence[Part], size_of: Callable[[Value], Size | None]
) -> Shape | None:
    """What a tensor of a shape becomes when it is viewed as some parts; ``None`` where they are too many to tell."""
    open_parts = [part for part in parts if isinstance(part, Shape) and part.rest is not None]
    if len(open_parts) > 1:
        return None
    rest = open_parts[0].rest if open_parts else None
    at = next((index for index, part in enumerate(parts) if part in open_parts), len(parts))
    front = [size for part in parts[: at + 1] for size in _sizes(part, size_of)]
    back = [*open_parts[0].back, *(size for part in parts[at + 1 :] for size in _sizes(part, size_of))] if rest else []
    if [*front, *back].count(None) > 1:
        return None
    left = _what_is_left(shape, front, rest, back)
    told_front = tuple(size or left or of_axis(result, index) for index, size in enumerate(front))
    told_back = tuple(size or left or of_axis(result, index - len(back)) for index, size in enumerate(back))
    return Shape(told_front, rest, told_back)


def _starred(value: Value) -> Value:
    """The argument behind a star."""
    is_starred = isinstance(value, Symbol) and value.name == "element" and is_part_of_shape(value.inputs[0])
    return value.inputs[0] if is_starred and isinstance(value, Symbol) else value


def _parts(value: Value, shape_of: Callable[[Value], Shape]) -> list[Part | None]:
    """The sizes and pieces of shapes that an argument consists of; `None` is what cannot be told."""
    if isinstance(value, Items):
        return list(value.items) if value.exact else [None]
    if is_part_of_shape(value):
        return [_piece(value, shape_of)]
    if isinstance(value, Symbol) and value.name == "+" and any(map(_is_list_of_sizes, value.inputs)):
        return [part for each in value.inputs for part in _parts(each, shape_of)]
    return [value]


def _is_list_of_sizes(value: Value) -> bool:
    is_sum = isinstance(value, Symbol) and value.name == "+" and any(map(_is_list_of_sizes, value.inputs))
    return isinstance(value, Items) or is_part_of_shape(value) or is_sum


def _piece(value: Value, shape_of: Callable[[Value], Shape]) -> Shape | None:
    """The axes that ``x.shape``, ``x.shape[k:]`` or ``x.shape[:k]`` stands for."""
    assert isinstance(value, Symbol)
    tensor = shaped_tensor(value)
    if tensor is not None:
        return shape_of(tensor)
    tensor = shaped_tensor(value.inputs[0])
    assert tensor is not None
    shape = shape_of(tensor)
    bounds = [number(bound) for bound in value.inputs[1:3]]
    if any(bound is None and not _is_left_out(given) for bound, given in zip(bounds, value.inputs[1:], strict=False)):
        return None
    start, stop = bounds[0] or 0, bounds[1]
    if len(value.inputs) != 4 or not _is_left_out(value.inputs[3]):
        return None
    if shape.rank is not None:
        return Shape(shape.sizes[start:stop])
    if stop is None:
        is_told = start >= 0 or -start <= len(shape.back)
        after = Shape(shape.sizes[start:], shape.rest_after(start), shape.back)
        return (after if start >= 0 else Shape(shape.back[start:])) if is_told else None
    if start < 0 or (start > 0 and stop < 0):
        return None
    if stop >= 0:
        first = shape.first(stop)
        return Shape(first[start:]) if first is not None else None
    if -stop <= len(shape.back):
        return Shape(shape.sizes, shape.rest, shape.back[:stop])
    return Shape(shape.sizes[:stop], (value, len(shape.sizes[:stop])))


def _is_left_out(bound: Value) -> bool:
    return isinstance(bound, Const) and bound.value is None


def _sizes(part: Part, size_of: Callable[[Value], Size | None]) -> tuple[Size | None, ...]:
    return part.sizes if isinstance(part, Shape) else (size_of(part),)


def _what_is_left(
    shape: Shape, front: Sequence[Size | None], rest: tuple[Value, int] | None, back: Sequence[Size | None]
) -> Size | None:
    """The size that ``-1`` stands for, where the axes between are the same on both sides.

    The steps of all samples, laid one after the other, are samples.
    """
    if rest != shape.rest:
        return None
    told = [size for size in (*front, *back) if size is not None]
    left, surplus = without_common(product((*shape.sizes, *shape.back)), product(told))
    has_samples = any(size.meaning == "batch" and size not in told for size in shape.sizes)
    return left.meant("batch" if has_samples else "") if surplus == Size() else None
