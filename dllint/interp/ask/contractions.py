"""Weights that a softmax makes: over which axis they sum to one, and over which a product sums them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dllint.choices import Choice
from dllint.dataclass import dataclass
from dllint.interp.ask import axis_moves
from dllint.interp.ask.axis_patterns import einsum_terms
from dllint.interp.ask.shape import Shape
from dllint.interp.ask.sizes import Size
from dllint.values import Instance, Symbol, Value

PRODUCTS = frozenset(("@", "torch.matmul", "torch.bmm", "torch.mm"))
_SOFTMAX = frozenset(("torch.softmax", "torch.nn.Softmax()"))
SCALING = frozenset(("*", "/", "+", "-", ".masked_fill", ".masked_fill_", "torch.where", "torch.masked_fill"))
_MAX_STEPS = 40

_ShapeOf = Callable[[Value], Shape]


@dataclass(frozen=True, slots=True)
class Weights:
    """What a softmax returned, or either of ``softmaxes``. ``axis`` sums to one, counted from the end, as it lies now.

    ``made_over`` is the number that this axis had when the softmax made it, and ``order`` tells of the last axes of
    now which ones they were then, where they were moved.
    """

    softmaxes: tuple[Symbol, ...]
    axis: int
    made_over: int
    order: tuple[int, ...] = ()

    def at_softmax(self, axis: int) -> int:
        """The number that an axis of now, counted from the end, had when the softmax made the weights."""
        return self.order[axis] if -axis <= len(self.order) else axis


@dataclass(frozen=True, slots=True)
class Contraction:
    """A product that sums weights over ``summed``, counted from the end. ``others`` are what they are applied to.

    ``left_at`` is where the axis that sums to one stands in what the product returns, if it does.
    """

    weights: Weights
    summed: int
    others: tuple[Value, ...]
    left_at: int | None = None


def contractions(product: Symbol, shape_of: _ShapeOf) -> Iterator[Contraction]:
    """The operands of a product that are weights of a softmax."""
    for index, (operand, summed) in enumerate(summed_of(product)):
        weights = weights_of(operand, shape_of)
        if weights is not None and summed is not None:
            others = tuple(other for place, (other, _) in enumerate(summed_of(product)) if place != index)
            yield Contraction(weights, summed, others, kept_at(product, index, weights.axis))


def summed_of(product: Symbol) -> list[tuple[Value, int | None]]:
    """The operands of a product, each with the axis that is summed of it, counted from the end, if it is one."""
    if product.name in PRODUCTS and len(product.inputs) == 2:
        return [(operand, -1 - index) for index, operand in enumerate(product.inputs)]
    found = einsum_terms(product) if product.name == "torch.einsum" else None
    terms, right, operands = found if found is not None else ([], "", ())
    summed = [[place - len(term) for place, letter in enumerate(term) if letter not in right] for term in terms]
    return [(each, axes[0] if len(axes) == 1 else None) for each, axes in zip(operands, summed, strict=True)]


def kept_at(product: Symbol, index: int, axis: int) -> int | None:
    """Where an axis of an operand of a product stands in what it returns, counted from the end."""
    if product.name in PRODUCTS:
        return axis if axis != -1 - index else None
    found = einsum_terms(product) if product.name == "torch.einsum" else None
    if found is None or not -axis <= len(found[0][index]):
        return None
    place = found[1].find(found[0][index][axis])
    return place - len(found[1]) if place >= 0 else None


def weights_of(value: Value, shape_of: _ShapeOf, depth: int = 0) -> Weights | None:
    """The softmax that has made a tensor, if only its axes were moved since, or some numbers dropped."""
    if isinstance(value, Choice) and depth <= _MAX_STEPS:
        return _agreed([weights_of(option, shape_of, depth + 1) for _, option in value.options])
    if not isinstance(value, Symbol) or not value.inputs or depth > _MAX_STEPS:
        return None
    if value.name in _SOFTMAX:
        axis = softmax_axis(value, shape_of)
        return Weights((value,), axis, axis) if axis is not None else None
    same = axis_moves.before_same_axes(value)
    if same is not None:
        return None if "norm" in value.name.lower() else weights_of(same, shape_of, depth + 1)
    before = weights_of(value.inputs[0], shape_of, depth + 1)
    order = order_after(value, shape_of) if before is not None else []
    if before is None or before.axis not in order:
        return None
    count = max(len(order), len(before.order))
    moved = (order[axis] if -axis <= len(order) else axis for axis in range(-count, 0))
    axis = order.index(before.axis) - len(order)
    return Weights(before.softmaxes, axis, before.made_over, tuple(map(before.at_softmax, moved)))


def _agreed(found: list[Weights | None]) -> Weights | None:
    """The weights of all options, if these are weights over the same axes: `scores.softmax(-1)`, masked or not."""
    known = [each for each in found if each is not None]
    axes = {(each.axis, each.made_over, each.order) for each in known}
    if len(known) < len(found) or len(axes) != 1:
        return None
    return Weights(tuple(softmax for each in known for softmax in each.softmaxes), *axes.pop())


def order_after(moved: Symbol, shape_of: _ShapeOf) -> list[int]:
    """Where the axes of a tensor stand after it was transposed, by their numbers from the end; empty if not known."""
    name = moved.name.removeprefix("torch.").removeprefix(".")
    rank = shape_of(moved.inputs[0]).rank
    given = axis_moves.numbers(axis_moves.given_to(moved)) or []
    if name in ("transpose", "swapaxes", "swapdims") and len(given) == 2:
        if rank is None and max(given) >= 0:
            return []
        order = list(range(-(rank or max(2, -min(given))), 0))
        first, second = (index if index < 0 else index - len(order) for index in given)
        if min(first, second) < -len(order) or max(first, second) >= 0:
            return []
        order[first], order[second] = order[second], order[first]
        return order
    if name == "permute" and given:
        return [index if index < 0 else index - len(given) for index in given]
    return [-1, -2] if name == "t" else []


def softmax_axis(softmax: Symbol, shape_of: _ShapeOf) -> int | None:
    """The axis over which a softmax normalizes, counted from the end."""
    axis = told_axis(softmax)
    if axis is None or axis < 0:
        return axis
    rank = shape_of(_given(softmax)).rank
    return axis - rank if rank is not None and axis < rank else None


def _given(operation: Symbol) -> Value:
    """What an operation or a layer is applied to."""
    is_layer = operation.name.endswith("()") and len(operation.inputs) > 1
    return operation.inputs[1 if is_layer else 0]


def told_axis(softmax: Symbol) -> int | None:
    """The axis that a softmax is told."""
    layer = softmax.inputs[0]
    if softmax.name.endswith("()"):
        return axis_moves.number(layer.arguments.get(0, "dim")) if isinstance(layer, Instance) else None
    return axis_moves.number(axis_moves.keyword(softmax, 0, "dim"))


def sums_another_axis(product: Symbol, softmax: Symbol, shape_of: _ShapeOf) -> bool:
    """Whether a product sums weights of a softmax over an axis of several steps that is not the one of the softmax.

    They may have been masked before, or divided by what they sum to.
    """
    axis, shape = softmax_axis(softmax, shape_of), shape_of(softmax)
    return axis is not None and any(
        summed not in (None, axis) and shape.axis(summed or 0) != Size() and _is_scaled(operand, softmax)
        for operand, summed in summed_of(product)
    )


def _is_scaled(value: Value, softmax: Symbol, depth: int = 0) -> bool:
    """Whether a value is what a softmax returned, with its axes where they were."""
    if value is softmax or depth > _MAX_STEPS:
        return value is softmax
    if isinstance(value, Choice):
        return any(_is_scaled(option, softmax, depth + 1) for _, option in value.options)
    if not isinstance(value, Symbol) or not value.inputs:
        return False
    if value.name in SCALING:
        return any(_is_scaled(each, softmax, depth + 1) for each in value.inputs)
    before = axis_moves.before_same_axes(value)
    return before is not None and _is_scaled(before, softmax, depth + 1)


def is_of_products(value: Value, depth: int = 0) -> bool:
    """Whether a tensor holds products of vectors, perhaps scaled and masked: the scores of attention."""
    if isinstance(value, Choice) and depth <= _MAX_STEPS:  # masked only if there is a mask
        return all(is_of_products(option, depth + 1) for _, option in value.options)
    if not isinstance(value, Symbol) or not value.inputs or depth > _MAX_STEPS:
        return False
    if value.name in PRODUCTS or value.name in ("torch.einsum", "torch.baddbmm"):
        return True
    if value.name in SCALING:
        return any(is_of_products(each, depth + 1) for each in value.inputs)
    before = axis_moves.before_same_axes(value)
    return before is not None and is_of_products(before, depth + 1)
