"""The shape of a tensor: the axes at its front and at its end that are known, and what lies between them."""

from __future__ import annotations

from collections.abc import Sequence

from dllint.dataclass import dataclass
from dllint.interp.ask.sizes import Meaning, Size, of_axis
from dllint.values import Value

_MANY = 3  # axes; masks, scales and positions that are added to such a tensor have no more


@dataclass(frozen=True, slots=True)
class Shape:
    """The axes of a tensor: ``sizes`` from the front, then ``rest``, then ``back`` up to the last.

    ``rest`` is a tensor and the number of its axis from which on its axes follow, however many these are; the last of
    them are those of ``back``. Without ``rest`` there are no more axes than ``sizes``.
    """

    sizes: tuple[Size, ...]
    rest: tuple[Value, int] | None = None
    back: tuple[Size, ...] = ()

    @property
    def rank(self) -> int | None:
        """The number of axes, where it is known."""
        return len(self.sizes) if self.rest is None else None

    @property
    def is_unknown(self) -> bool:
        """Whether no axis is known."""
        return self.rest is not None and not self.sizes and not self.back

    def axis(self, index: int) -> Size | None:
        """The size of an axis; ``None`` if there is none, or if nothing tells which one it is."""
        if index < 0:
            return self._from_the_end(-index)
        if index < len(self.sizes):
            return self.sizes[index]
        if self.rest is None:
            return None
        tensor, first = self.rest
        return of_axis(tensor, first + index - len(self.sizes))

    def _from_the_end(self, count: int) -> Size | None:
        known = self.sizes if self.rest is None else self.back
        return known[-count] if count <= len(known) else None

    def place(self, index: int) -> int | None:
        """The number of an axis from the front; ``None`` where it is counted from an end that is not known."""
        if index >= 0:
            return index if self.rank is None or index < self.rank else None
        return index + self.rank if self.rank is not None and index + self.rank >= 0 else None

    def first(self, count: int) -> tuple[Size, ...] | None:
        """The sizes of the first axes."""
        sizes = [self.axis(index) for index in range(count)]
        return tuple(size for size in sizes if size is not None) if None not in sizes else None

    def of_rank(self, rank: int) -> Shape:
        """The shape, where the number of axes is told."""
        if self.rest is None or rank < len(self.sizes) + len(self.back):
            return self
        between = rank - len(self.sizes) - len(self.back)
        tensor, first = self.rest
        return Shape((*self.sizes, *(of_axis(tensor, first + index) for index in range(between)), *self.back))

    def rest_after(self, count: int) -> tuple[Value, int] | None:
        """The rest, when the first axes are written out up to a number of them."""
        return (self.rest[0], self.rest[1] + max(0, count - len(self.sizes))) if self.rest is not None else None

    def means(self, index: int, meaning: Meaning) -> bool:
        """Whether an axis certainly has a meaning."""
        size = self.axis(index)
        return size is not None and size.meaning == meaning

    @property
    def is_batch(self) -> bool:
        """Whether the first axis is that of the samples."""
        return self.means(0, "batch")

    @property
    def is_row(self) -> bool:
        """Whether it is a batch of single numbers without an axis for them: (N,)."""
        return self.rank == 1 and self.sizes[0].known is None

    @property
    def is_column(self) -> bool:
        """Whether it is a batch of single numbers with an axis for them: (N, 1)."""
        if self.rank is not None:
            return self.rank == 2 and self.sizes[0].known is None and self.sizes[1] == Size()
        return self.back == (Size(),) and self.is_batch

    @property
    def ones(self) -> int:
        """How many axes of size one follow that of the batch, if there are no others: of a column there is one."""
        is_batch = self.rank is not None and self.rank > 1 and self.sizes[0].known is None
        return len(self.sizes) - 1 if is_batch and all(size == Size() for size in self.sizes[1:]) else 0

    @property
    def may_be_column(self) -> bool:
        """Whether it is a column if it is a batch at all: what a linear layer with one output returns."""
        return self.is_column or (self.is_layer_output and self.back == (Size(),))

    @property
    def is_layer_output(self) -> bool:
        """Whether only the last axis is known, and perhaps the batch: what a linear layer returns."""
        return self.rest is not None and len(self.back) == 1 and len(self.sizes) <= 1

    def __str__(self) -> str:
        sizes = [str(size) for size in self.sizes]
        return f"({', '.join([*sizes, '...', *map(str, self.back)] if self.rest is not None else sizes)})"


def joined(shapes: Sequence[Shape], value: Value) -> Shape | None:
    """What is true of all of some shapes that a value may have; an axis in which they differ is one of its own."""
    first = shapes[0]
    if all(each == first for each in shapes):
        return first
    ranks = {each.rank for each in shapes}
    if None in ranks:
        return _joined_at_the_ends(shapes, value, min((rank for rank in ranks if rank is not None), default=None))
    if len(ranks) > 1:
        return None
    columns = zip(*(each.sizes for each in shapes), strict=True)
    return Shape(tuple(_common(column, value, index) for index, column in enumerate(columns)))


def _joined_at_the_ends(shapes: Sequence[Shape], value: Value, rank: int | None) -> Shape | None:
    """What all have at the front and at the end, where the number of axes of some is not known.

    No axis is told twice: not more of them than the shortest of those that are known has.
    """
    backs = [each.sizes if each.rest is None else each.back for each in shapes]
    count = min(map(len, backs))
    fronts = [each.sizes for each in shapes]
    before = min(map(len, fronts)) if rank is None else min(*map(len, fronts), rank - count)
    if count + before == 0:
        return None
    ends = zip(*(back[len(back) - count :] for back in backs), strict=True)
    starts = zip(*(front[:before] for front in fronts), strict=True)
    return Shape(
        tuple(_common(column, value, index) for index, column in enumerate(starts)),
        (value, before),
        tuple(_common(column, value, index - count) for index, column in enumerate(ends)),
    )


def _common(column: Sequence[Size], value: Value, index: int) -> Size:
    size = column[0] if all(each.same(column[0]) for each in column) else of_axis(value, index)
    meanings = {each.meaning for each in column}
    return size.meant(meanings.pop() if len(meanings) == 1 else "")


def combined(left: Shape, right: Shape, result: Value) -> Shape | None:
    """What two tensors are broadcast to."""
    if left.is_unknown or right.is_unknown:
        return left if left == right else _with_unknown(right if left.is_unknown else left, result)
    if left == right or right.rank == 0:
        return left
    if left.rank == 0:
        return right
    if left.rank is None or right.rank is None:
        return _of_samples(left, right) or _with_same_end(left, right, result) or _with_vector(left, right)
    rank = max(left.rank, right.rank)
    ours, theirs = ((Size(),) * (rank - len(each.sizes)) + each.sizes for each in (left, right))
    return Shape(tuple(_wider(a, b, result, i) for i, (a, b) in enumerate(zip(ours, theirs, strict=True))))


def _with_unknown(known: Shape, result: Value) -> Shape | None:
    """A row or three axes and more, with a tensor that is not known: that one is taken not to have more axes."""
    if known.is_row:
        return known
    if known.rank is None or known.rank < _MANY:
        return None
    return Shape(tuple(of_axis(result, i) if size == Size() else size for i, size in enumerate(known.sizes)))


def _of_samples(left: Shape, right: Shape) -> Shape | None:
    """A row with numbers of samples of which only the first axis is known: they are taken for a row as well.

    With more axes their samples would not go with those of the row.
    """
    row, other = (left, right) if left.is_row else (right, left)
    is_open = other.rest is not None and len(other.sizes) == 1 and not other.back
    return row if row.is_row and is_open and {row.sizes[0].meaning, other.sizes[0].meaning} <= {"", "batch"} else None


def _with_same_end(left: Shape, right: Shape, result: Value) -> Shape | None:
    """Two tensors of which the last axis is the same: what two linear layers of one width return."""
    if not left.back or len(left.back) != len(right.back) or len(left.sizes) > 1 or len(right.sizes) > 1:
        return None
    if not all(ours.same(theirs) for ours, theirs in zip(left.back, right.back, strict=True)):
        return None
    is_same_front = left.sizes and right.sizes and left.sizes[0].same(right.sizes[0])
    front = left.sizes if is_same_front else ()
    return Shape(front, (result, len(front)), left.back)


def _with_vector(left: Shape, right: Shape) -> Shape | None:
    """A tensor with a weight for each feature: it stays as it is, if the last axes are known to be as long."""
    vector, other = (left, right) if left.rank is not None else (right, left)
    if vector.rank is None or not 0 < vector.rank <= len(other.back):
        return None
    pairs = zip(vector.sizes, other.back[-vector.rank :], strict=True)
    return other if all(size == Size() or size.same(theirs) for size, theirs in pairs) else None


def _wider(left: Size, right: Size, result: Value, index: int) -> Size:
    if left.same(right):
        return left if left.meaning else right
    for size, other in ((left, right), (right, left)):
        if size == Size() or (other.known is not None and other.known > 1):
            return other
    return of_axis(result, index, meaning=left.meaning if left.meaning == right.meaning else "")
