"""What an index leaves of the axes of a tensor: ``x[0]``, ``x[:, -1]``, ``x[:, None]``, ``x[1:]``."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from dllint.interp.ask.axis_moves import keyword, number
from dllint.interp.ask.shape import Shape
from dllint.interp.ask.sizes import Size, of_axis
from dllint.values import Const, Items, Setting, Symbol, Value

_ALL_PLACES = ("numpy.arange", "numpy.random.permutation", "torch.randperm", "torch.arange")
_TABLES_OF_TEXT = ("numpy.loadtxt", "numpy.genfromtxt")
_DRAWN = {"numpy.random.choice": 1, "numpy.random.randint": 2, "torch.randint": 2, "random.sample": 1}
"""What draws places, with the argument that says how many: without it, it draws one."""


def indexed(item: Symbol, shape: Shape, shape_of: Callable[[Value], Shape]) -> Shape | None:
    """The shape of a part of a tensor; ``None`` where some index is not known, or a tensor that is no row."""
    index = item.inputs[1] if len(item.inputs) > 1 else None
    parts = index.items if isinstance(index, Items) else (index,) if index is not None else ()
    spelled = _without_ellipsis(parts)
    if len(spelled) > 1 and getattr(item.inputs[0], "name", "") in _TABLES_OF_TEXT:
        shape = shape.of_rank(2)  # as it has one axis only where the file has one column
    if len(spelled) == 1 and _chooses(spelled[0]):
        samples = of_axis(spelled[0], 0, meaning="batch")
        return Shape((samples, *shape.sizes[1:]), shape.rest_after(1), shape.back)
    if _is_one_of_each_row(spelled, shape_of):
        return _one_of_each_row(item, spelled, shape)
    rows = [part for part in spelled if isinstance(part, Symbol) and (_chooses(part) or shape_of(part).is_row)]
    if not spelled or (shape.back and len(spelled) > len(shape.sizes)):
        return None
    sizes: list[Size] = []
    axis = 0
    for part in spelled:
        if is_new_axis(part):
            sizes.append(Size())
            continue
        size = shape.axis(axis)
        if size is None:
            return None
        if is_slice(part):
            sizes.append(size if is_whole(part) else of_axis(item, axis, meaning=size.meaning))
        elif rows == [part]:
            sizes.append(of_axis(part, 0, meaning="batch" if _chooses(part) else ""))
        elif not is_place(part):
            return None
        axis += 1
    return Shape((*sizes, *shape.sizes[axis:]), shape.rest_after(axis), shape.back)


def sliced(result: Symbol, shape: Shape) -> Shape | None:
    """``x[1:]``: another number of steps of the first axis."""
    first = shape.axis(0)
    bounds = result.inputs[1:]
    if all(isinstance(bound, Const) and bound.value is None for bound in bounds):
        return shape
    if first is None:
        return None
    return Shape((of_axis(result, 0, meaning=first.meaning), *shape.sizes[1:]), shape.rest_after(1), shape.back)


def cut(item: Symbol, operation: Symbol, shape: Shape) -> Shape | None:
    """One of the parts that ``split``, ``chunk`` or ``unbind`` makes of a tensor."""
    is_unbound = operation.name.endswith("unbind")
    given = keyword(operation, 0 if is_unbound else 1, "dim", "axis")
    axis = number(given) if given is not None else 0
    place = shape.place(axis) if axis is not None else None
    before = shape.first(place + 1) if place is not None else None
    if place is not None and before is not None:
        part = () if is_unbound else (of_axis(item, place, meaning=before[-1].meaning),)
        return Shape((*before[:-1], *part, *shape.sizes[place + 1 :]), shape.rest_after(place + 1), shape.back)
    if axis == -1 and shape.back and not is_unbound:
        return Shape(shape.sizes, shape.rest, (*shape.back[:-1], of_axis(item, -1, meaning=shape.back[-1].meaning)))
    return None


def _is_one_of_each_row(parts: Sequence[Value], shape_of: Callable[[Value], Shape]) -> bool:
    """Whether an index is ``[range(n), actions]``: the places of one number in each row."""
    if len(parts) != 2 or not isinstance(parts[0], Symbol) or not isinstance(parts[1], Symbol):
        return False
    return parts[0].name in ("range", *_ALL_PLACES) and not is_slice(parts[1]) and shape_of(parts[1]).rank in (None, 1)


def _one_of_each_row(item: Symbol, parts: Sequence[Value], shape: Shape) -> Shape | None:
    """One number of each row of a matrix, or of what a linear layer makes of a batch."""
    if shape.rank is not None and shape.rank >= 2:
        return Shape((of_axis(parts[0], 0, meaning=shape.sizes[0].meaning), *shape.sizes[2:]))
    return Shape((of_axis(parts[0], 0),)) if shape.is_layer_output else None


def _chooses(part: Value) -> bool:
    """Whether an index is a part of all places in some order, or drawn from them: a batch of what was collected."""
    if isinstance(part, Symbol) and part.name in _DRAWN and part.arguments is not None:
        name = "k" if part.name == "random.sample" else "size"
        return part.arguments.get(_DRAWN[part.name], name) is not None
    places = part.inputs[0] if isinstance(part, Symbol) and part.name == "slice" and part.inputs else None
    return isinstance(places, Symbol) and places.name in _ALL_PLACES


def is_slice(part: Value) -> bool:
    """Whether a part of an index is written with a colon."""
    return part.site is not None and isinstance(part.site.node, ast.Slice)


def is_whole(part: Value) -> bool:
    """Whether a part of an index is a colon and nothing else."""
    node = part.site.node if part.site is not None else None
    return isinstance(node, ast.Slice) and node.lower is node.upper is node.step is None


def is_place(part: Value) -> bool:
    """Whether a part of an index is a number: one step of an axis."""
    if isinstance(part, Const):
        return isinstance(part.value, int) and not isinstance(part.value, bool)
    if not isinstance(part, Symbol):
        return False
    is_asked_for = part.name == "index" and not part.inputs  # a sample of a dataset
    is_farther = part.name in ("+", "-") and is_place(part.inputs[0]) and all(map(_may_be_number, part.inputs[1:]))
    return is_asked_for or part.name == "counter" or is_farther


def _may_be_number(value: Value) -> bool:
    """Whether a value that is added to a place may be a number of steps: of a tensor more would be known."""
    return is_place(value) or isinstance(value, Setting) or getattr(value, "name", "") in ("parameter", "attribute")


def is_new_axis(part: Value) -> bool:
    """Whether a part of an index is ``None``, which adds an axis."""
    return isinstance(part, Const) and part.value is None and not is_slice(part)


def _without_ellipsis(parts: Sequence[Value]) -> Sequence[Value]:
    """The parts of an index, one for each axis, without those that ``...`` stands for at its end."""
    dots = [i for i, part in enumerate(parts) if isinstance(part, Const) and part.value is ...]
    if not dots:
        return parts
    if len(dots) > 1 or (dots[0] != len(parts) - 1):
        return ()
    return parts[:-1]
