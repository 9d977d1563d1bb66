"""The axes of a tensor, as far as the program tells: from layers, sizes that are read, and what moves axes about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dllint.interp.ask.sizes import Size, of_axis, of_value, product, without_common
from dllint.interp.run.containers import RANK
from dllint.interp.run.modules import force
from dllint.interp.source.axis_facts import Layer, axis_facts
from dllint.values import Choice, Const, Instance, Items, Setting, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_MAX_DEPTH = 40
_MADE = frozenset(f"torch.{name}" for name in ("zeros", "ones", "empty", "randn", "rand"))
_ELEMENTWISE = frozenset(("+", "-", "*", "/", "torch.add", "torch.sub", "torch.mul", "torch.div"))


@dataclass(frozen=True, slots=True)
class Shape:
    """The axes of a tensor, from the front.

    Those after ``sizes`` are the axes of the tensor ``rest[0]``, from number ``rest[1]`` on, however many these are;
    without ``rest`` there are no more.
    """

    sizes: tuple[Size, ...]
    rest: tuple[Value, int] | None = None

    def axis(self, index: int) -> Size | None:
        """The size of an axis; ``None`` if there is none, or if it is counted from an end that is not known."""
        if -len(self.sizes) <= index < len(self.sizes) and (index >= 0 or self.rest is None):
            return self.sizes[index]
        if self.rest is None or index < 0:
            return None
        tensor, first = self.rest
        return of_axis(tensor, first + index - len(self.sizes))

    def first(self, count: int) -> tuple[Size, ...] | None:
        """The sizes of the first axes."""
        sizes = [self.axis(index) for index in range(count)]
        return tuple(size for size in sizes if size is not None) if None not in sizes else None

    @property
    def rank(self) -> int | None:
        """The number of axes, where it is known."""
        return len(self.sizes) if self.rest is None else None


class Axes:
    """The shapes of the tensors of one program. A tensor of which nothing is known has axes of its own."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._facts = axis_facts()
        self._known: dict[Value, Shape] = {}

    def of(self, tensor: Value, depth: int = 0) -> Shape:
        """The axes of a tensor."""
        known = self._known.get(tensor)
        if known is None:
            found = self._found(tensor, depth) if depth < _MAX_DEPTH else None
            known = _of_known_rank(tensor, found if found is not None else Shape((), (tensor, 0)))
            if depth == 0:
                self._known[tensor] = known
        return known

    def size(self, value: Value) -> Size | None:
        """The size that a value means; ``None`` for ``-1``, which stands for what is left."""
        if isinstance(value, Const):
            whole = isinstance(value.value, int) and not isinstance(value.value, bool) and value.value > 0
            return Size(value.value) if whole else None
        if isinstance(value, Symbol):
            if value.name == "*" and len(value.inputs) == 2:
                parts = [self.size(part) for part in value.inputs]
                known = [part for part in parts if part is not None]
                return product(known) if len(known) == 2 else None
            read = _axis_read_by(value)
            if read is not None:
                tensor, index = read
                shape = self.of(tensor)
                return shape.axis(index) or of_axis(shape.rest[0] if shape.rest is not None else tensor, index)
        return of_value(value)

    def sizes(self, given: Sequence[Value]) -> list[Size | None] | None:
        """The sizes that ``view`` and its like are given, one by one or in a tuple, if they are told."""
        if len(given) == 1 and isinstance(given[0], Items):
            given = given[0].items if given[0].exact else ()
        if not given or any(isinstance(each, Choice | Items) for each in given):
            return None
        if len(given) == 1 and isinstance(given[0], Symbol) and _axis_read_by(given[0]) is None:
            return None  # a whole shape, or a dtype
        return [self.size(each) for each in given]

    # ---------------------------------------------------------------------------------------------- by operation

    def _found(self, tensor: Value, depth: int) -> Shape | None:
        if isinstance(tensor, Choice):
            shapes = [self.of(option, depth + 1) for _, option in tensor.options]
            return shapes[0] if all(shape == shapes[0] for shape in shapes) else None
        if not isinstance(tensor, Symbol) or not tensor.inputs:
            return None
        if tensor.name == "forward":
            forced = force(self._machine, tensor)
            return self.of(forced, depth + 1) if forced is not tensor else None
        if tensor.name.endswith("()"):
            return self._of_layer(tensor, depth)
        if tensor.name in _MADE:
            sizes = self.sizes(tensor.arguments.positional) if tensor.arguments is not None else None
            return Shape(tuple(s for s in sizes if s is not None)) if sizes and None not in sizes else None
        if tensor.name in _ELEMENTWISE:
            return self._of_operands(tensor, depth)
        if tensor.name == "item":
            return self._of_item(tensor, depth)
        if tensor.name[1:] in self._facts.same_methods and tensor.name[0] == ".":
            return self.of(tensor.inputs[0], depth + 1)
        if tensor.name in self._facts.same_functions:
            return self.of(tensor.inputs[0], depth + 1)
        move = _MOVES.get(tensor.name.removeprefix("torch.").removeprefix("."))
        if move is None or (tensor.arguments is not None and not tensor.arguments.exact):
            return None
        return move(self, tensor, self.of(tensor.inputs[0], depth + 1), tensor.inputs[1:])

    def _of_layer(self, result: Symbol, depth: int) -> Shape | None:
        name, layer = result.name.removesuffix("()"), result.inputs[0]
        if len(result.inputs) < 2 or not isinstance(layer, Instance):
            return None
        given = self.of(result.inputs[1], depth + 1)
        if name in self._facts.same_modules:
            return given
        if name == "torch.nn.Flatten":
            return _flattened(self, result, given, layer.arguments.all() or (Const(1),))
        if (fact := self._facts.channels.get(name)) is not None:
            first = given.first(2)
            if first is None:
                return None
            channels = self._argument(layer, fact) if fact.argument else first[1]
            spatial = tuple(of_axis(result, 2 + index) for index in range(fact.spatial))
            return Shape((first[0], channels, *spatial))
        if (fact := self._facts.embedding.get(name)) is not None and given.rest is None:
            return Shape((*given.sizes, self._argument(layer, fact)))
        if (fact := self._facts.features.get(name)) is not None and given.rest is None and given.sizes:
            return Shape((*given.sizes[:-1], self._argument(layer, fact)))
        return None

    def _argument(self, layer: Instance, fact: Layer) -> Size:
        value = layer.arguments.get(fact.position, fact.argument)
        size = self.size(value) if value is not None else None
        return size if size is not None else of_value(layer)

    def _of_operands(self, result: Symbol, depth: int) -> Shape | None:
        """What two tensors are combined to, element by element. A number leaves the other one's axes as they are."""
        left, right = result.inputs[:2] if len(result.inputs) >= 2 else (result.inputs[0], Const(1))
        if isinstance(right, Const | Setting):
            return self.of(left, depth + 1)
        if isinstance(left, Const | Setting):
            return self.of(right, depth + 1)
        ours, theirs = self.of(left, depth + 1), self.of(right, depth + 1)
        return ours if ours == theirs else None

    def _of_item(self, item: Symbol, depth: int) -> Shape | None:
        """The outputs of a recurrent layer, the first of what it returns."""
        base = item.inputs[0]
        if not (isinstance(base, Symbol) and base.name.removesuffix("()") in self._facts.recurrent):
            return None
        layer = base.inputs[0]
        if item.detail != 0 or len(base.inputs) < 2 or not isinstance(layer, Instance):
            return None
        first = self.of(base.inputs[1], depth + 1).first(2)
        return Shape((*first, of_axis(item, 2))) if first is not None else None


def _of_known_rank(tensor: Value, shape: Shape) -> Shape:
    """A shape with the number of axes that the program tells by unpacking it."""
    rank = tensor.attributes.get(RANK) if isinstance(tensor, Symbol) else None
    if shape.rest is None or not isinstance(rank, Const):
        return shape
    return Shape(shape.first(rank.value) or shape.sizes)


def _axis_read_by(value: Value) -> tuple[Value, int] | None:
    """The tensor and the axis whose size ``x.size(i)``, ``x.shape[i]`` or ``len(x)`` reads."""
    if not isinstance(value, Symbol) or not value.inputs:
        return None
    if value.name == "len":
        return value.inputs[0], 0
    if value.name == ".size" and len(value.inputs) == 2 and isinstance(value.inputs[1], Const):
        return value.inputs[0], value.inputs[1].value
    if value.name == "item" and isinstance(value.detail, int):
        base = value.inputs[0]
        is_shape = isinstance(base, Symbol) and base.inputs and (
            (base.name == "attribute" and base.detail == "shape") or (base.name == ".size" and len(base.inputs) == 1)
        )  # fmt: skip
        if is_shape and isinstance(base, Symbol):
            return base.inputs[0], value.detail
    return None


# ------------------------------------------------------------------------------------------- what moves axes about

_Move = Callable[[Axes, Symbol, Shape, Sequence[Value]], Shape | None]


def _numbers(given: Sequence[Value]) -> list[int] | None:
    if len(given) == 1 and isinstance(given[0], Items):
        given = given[0].items
    found = [each.value for each in given if isinstance(each, Const) and isinstance(each.value, int)]
    return found if len(found) == len(given) else None


def _reshaped(axes: Axes, result: Symbol, shape: Shape, given: Sequence[Value]) -> Shape | None:
    sizes = axes.sizes(given)
    if sizes is None or sizes.count(None) > 1:
        return None
    if None in sizes:
        sizes[sizes.index(None)] = _what_is_left(shape, [s for s in sizes if s is not None]) or of_axis(
            result, sizes.index(None)
        )
    return Shape(tuple(size for size in sizes if size is not None))


def _what_is_left(shape: Shape, sizes: Sequence[Size]) -> Size | None:
    """The size that ``-1`` stands for, where all axes are known."""
    if shape.rest is not None:
        return None
    left, surplus = without_common(product(shape.sizes), product(sizes))
    return left if surplus == Size() else None


def _permuted(axes: Axes, result: Symbol, shape: Shape, given: Sequence[Value]) -> Shape | None:
    order = _numbers(given)
    if not order or (shape.rank is None and min(order) < 0):
        return None
    sizes = [shape.axis(index) for index in order]
    return Shape(tuple(size for size in sizes if size is not None)) if None not in sizes else None


def _transposed(axes: Axes, result: Symbol, shape: Shape, given: Sequence[Value]) -> Shape | None:
    pair = _numbers(given)
    if not pair or len(pair) != 2:
        return None
    if shape.rank is not None:
        pair = [index % shape.rank for index in pair] if shape.rank else pair
    if min(pair) < 0:
        return None
    count = max(*pair, len(shape.sizes) - 1) + 1
    sizes = list(shape.first(count) or ())
    if not sizes:
        return None
    sizes[pair[0]], sizes[pair[1]] = sizes[pair[1]], sizes[pair[0]]
    return Shape(tuple(sizes), _rest_after(shape, count))


def _rest_after(shape: Shape, count: int) -> tuple[Value, int] | None:
    return (shape.rest[0], shape.rest[1] + count - len(shape.sizes)) if shape.rest is not None else None


def _unsqueezed(axes: Axes, result: Symbol, shape: Shape, given: Sequence[Value]) -> Shape | None:
    at = _numbers(given)
    if not at or len(at) != 1 or (at[0] < 0 and shape.rank is None):
        return None
    index = at[0] if at[0] >= 0 else at[0] + len(shape.sizes) + 1
    count = max(index, len(shape.sizes))
    sizes = shape.first(count)
    return None if sizes is None else Shape((*sizes[:index], Size(), *sizes[index:]), _rest_after(shape, count))


def _squeezed(axes: Axes, result: Symbol, shape: Shape, given: Sequence[Value]) -> Shape | None:
    at = _numbers(given)
    if not at or len(at) != 1 or shape.rank is None or not -shape.rank <= at[0] < shape.rank:
        return None
    index = at[0] % shape.rank
    if shape.sizes[index] != Size():
        return None
    return Shape(shape.sizes[:index] + shape.sizes[index + 1 :])


def _flattened(axes: Axes, result: Symbol, shape: Shape, given: Sequence[Value]) -> Shape | None:
    bounds = _numbers(given)
    if bounds is None or len(bounds) > 2:
        return None
    first, last = (*bounds, *(0, -1)[len(bounds) :])
    if shape.rank is not None:
        first, last = first % shape.rank, last % shape.rank
        return Shape((*shape.sizes[:first], product(shape.sizes[first : last + 1]), *shape.sizes[last + 1 :]))
    before = shape.first(first) if first >= 0 else None
    return Shape((*before, of_axis(result, first))) if before is not None and last == -1 else None


_MOVES: dict[str, _Move] = {
    "view": _reshaped,
    "reshape": _reshaped,
    "permute": _permuted,
    "transpose": _transposed,
    "swapaxes": _transposed,
    "unsqueeze": _unsqueezed,
    "squeeze": _squeezed,
    "flatten": _flattened,
}
