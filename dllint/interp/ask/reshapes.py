"""Views that mix axes: the sizes fit, and the numbers do not stand where the new axes say.

``view`` and ``reshape`` keep the order of the numbers in memory. An axis that is on both sides keeps its meaning only
if as many numbers lie before each of its steps as before, that is, if the axes before it have the same product.
``(batch, time, features)`` viewed as ``(time, batch, features)`` has all sizes right, and every row is a mixture of
samples.
"""

from __future__ import annotations

from collections.abc import Sequence

from dllint.dataclass import dataclass
from dllint.interp.ask.shape import Shape
from dllint.interp.ask.sizes import Factor, Size, product, without_common

_OF_STATE, _IN_ROWS = 3, 2  # axes: layers, samples, features; rows
_WITH_HEADS = 4  # axes: samples, heads, steps, features


@dataclass(frozen=True, slots=True)
class Mixture:
    """An axis that a view does not keep: its number before and after.

    ``moved`` is the product of the axes that stand before it, or after it, on one side only. ``is_if_longer`` says that
    the two axes exchange places only if the tensor has another axis in between, which nothing tells. ``is_cut`` says
    that the last axis is taken apart, and that one of its parts is put before the steps, as the heads of attention.
    """

    axis: Size
    before: int
    after: int
    moved: Size
    is_if_longer: bool = False
    is_cut: bool = False

    @property
    def may_be_empty(self) -> bool:
        """Whether one of two axes that change places may have a single step, so that nothing is mixed.

        That of the batch, those of a product and those that a layer sets are longer.
        """
        return _may_be_one(self.axis) and _may_be_one(self.moved)

    @property
    def settings(self) -> tuple[Factor, ...]:
        """The sizes of the axes that change places, where they are single values of the program."""
        found = (_only(size) for size in (self.axis, self.moved))
        return tuple(factor for factor in found if factor is not None and factor.axis is None)


def _only(size: Size) -> Factor | None:
    return size.factors[0] if size.number == 1 and len(size.factors) == 1 else None


def _may_be_one(size: Size) -> bool:
    factor = _only(size)
    return factor is not None and factor.axis not in (None, 0)


def mixture(shape: Shape, sizes: Sequence[Size | None]) -> Mixture | None:
    """The first axis of a tensor that a view of some sizes mixes with others; ``None`` where that is not certain."""
    if _adds_an_axis(shape, sizes):
        return None
    heads = _heads_before_steps(shape, sizes)
    for after, size in enumerate(sizes):
        if size is None or not size.is_atomic:
            continue
        before = _position(shape, size)
        if before is None or sum(1 for other in sizes if other is not None and _mentions(other, size)) != 1:
            continue
        moved = _moved(shape, before, sizes, after)
        if moved is not None:
            return Mixture(size, before, after, moved, is_cut=heads is not None)
    return heads or _states_in_rows(shape, sizes)


def _states_in_rows(shape: Shape, sizes: Sequence[Size | None]) -> Mixture | None:
    """The state of a recurrent layer, one after the other, in rows that have as many numbers as those of one sample.

    As the state has the layers and directions before the samples, each row holds several samples in one of them.
    """
    if shape.rank != _OF_STATE or len(sizes) != _IN_ROWS or not shape.means(0, "layer"):
        return None
    (layers, batch, hidden), row = shape.sizes, sizes[1]
    is_whole = row is not None and row.same(product((layers, hidden)))
    return Mixture(batch, 1, 0, layers) if is_whole and layers.number > 1 and batch != Size() else None


def _heads_before_steps(shape: Shape, sizes: Sequence[Size | None]) -> Mixture | None:
    """The last axis is taken apart, and one of the parts put before the axis of steps: ``(batch, heads, -1, size)``.

    Only ``(batch, -1, heads, size)`` leaves every head the features of its step. A tensor of two axes has no steps.
    """
    whole, part = shape.axis(-1), sizes[-1]
    if whole is None or part is None or len(sizes) < _WITH_HEADS or shape.rank in (1, 2):
        return None
    after = len(sizes) - 3
    heads, steps = sizes[after], sizes[-2]
    if heads is None or not heads.is_atomic or (steps is not None and not steps.is_atomic):
        return None
    if not _is_cut(whole, heads, part) or (steps is not None and (steps.same(heads) or _mentions(whole, steps))):
        return None
    return Mixture(heads, after + 1, after, steps or Size(), steps is None and shape.rank is None, is_cut=True)


def _is_cut(whole: Size, parts: Size, part: Size) -> bool:
    """Whether an axis has as many steps as so many parts of a size."""
    quotient = part.factors[0].quotient if part.number == 1 and len(part.factors) == 1 else None
    if quotient is not None and quotient[0].same(whole) and quotient[1].same(parts):
        return True
    return whole.same(product((parts, part))) and whole != parts


def _adds_an_axis(shape: Shape, sizes: Sequence[Size | None]) -> bool:
    """Whether a view may just add an axis of one step: all others may be those of the tensor, in their order."""
    known = [size for size in sizes if size is not None]
    if len(known) < len(sizes):
        return False
    others = [size for size in known if _position(shape, size) is None]
    axes = [index for size in known if (index := _position(shape, size)) is not None]
    count = len(axes) if shape.rank is None else shape.rank
    return len(others) == 1 and axes == list(range(count))


def _position(shape: Shape, size: Size) -> int | None:
    """Which axis of a tensor has a size that no other one has."""
    found = [index for index, known in enumerate(shape.sizes) if _mentions(known, size)]
    if found:
        return found[0] if len(found) == 1 and shape.sizes[found[0]] == size else None
    factor = size.factors[0] if size.factors else None
    if factor is None or shape.rest is None or factor.axis is None or factor.owner != id(shape.rest[0]):
        return None
    index = factor.axis - shape.rest[1] + len(shape.sizes)
    return index if index >= len(shape.sizes) else None


def _mentions(size: Size, part: Size) -> bool:
    return part.factors[0] in size.factors if part.factors else size.number == part.number


def _moved(shape: Shape, before: int, sizes: Sequence[Size | None], after: int) -> Size | None:
    """What stands on one side of an axis and no longer does, or newly does, if that is certain.

    The axes before it and those after it have the same product in a view that keeps it, and it is enough that one of
    the two can be compared.
    """
    named = {factor for size in sizes if size is not None for factor in size.factors}
    sides = [(shape.first(before), sizes[:after])]
    if shape.rank is not None:
        sides.append((shape.sizes[before + 1 :], sizes[after + 1 :]))
    moved = None
    for ours, theirs in sides:
        known = [size for size in theirs if size is not None]
        if ours is None or len(known) != len(theirs):
            continue
        before_it, after_view = product(ours), product(known)
        gone, new = without_common(_in_parts(before_it, after_view), _in_parts(after_view, before_it))
        if gone == new == Size():
            return None
        if new == Size() and (gone.number > 1 or named.issuperset(gone.factors)):
            moved = moved or gone
        elif gone == Size():
            moved = moved or new
    return moved


def _in_parts(size: Size, other: Size) -> Size:
    """A size with each whole of which the other one has a part written as its parts: ``n`` as ``n // 2 * 2``."""
    for factor in other.factors:
        if factor.quotient is not None:
            whole, count = factor.quotient
            left, surplus = without_common(size, whole)
            if surplus == Size() and whole.factors:
                size = product((left, Size(1, (factor,)), count))
    return size
