"""Products that mix weights with each other, and do not apply them yet: talking heads, pooled queries."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dllint.choices import Choice
from dllint.interp.ask import axis_moves
from dllint.interp.ask.axis_patterns import einsum_terms
from dllint.interp.ask.contractions import PRODUCTS, SCALING, Contraction, kept_at, order_after, summed_of
from dllint.interp.ask.shape import Shape
from dllint.values import Symbol, Value

_MAX_STEPS = 40

_ShapeOf = Callable[[Value], Shape]


def is_mix(product: Symbol, found: Contraction, products: Iterable[Symbol], shape_of: _ShapeOf) -> bool:
    """Whether a product that sums weights only mixes them: over an axis that the scores have of both of what was
    compared, such as that of the heads, or before another one of ``products`` sums the axis that they sum to one over.
    """
    summed = found.weights.at_softmax(found.summed)
    if not all(summed in compared_axes(softmax) for softmax in found.weights.softmaxes):
        return True
    if found.left_at is None:
        return False
    return any(
        axis is not None and axis in _places(operand, product, found.left_at, shape_of)
        for later in products
        if later is not product
        for operand, axis in summed_of(later)
    )


def compared_axes(scores: Value, depth: int = 0) -> frozenset[int]:
    """The axes of products of vectors over which these run, counted from the end: each is of one of the two operands.

    An axis of both is no such one: there are products for each batch, or for each head, of it.
    """
    if isinstance(scores, Choice) and depth <= _MAX_STEPS:
        return frozenset.intersection(*(compared_axes(option, depth + 1) for _, option in scores.options))
    if not isinstance(scores, Symbol) or not scores.inputs or depth > _MAX_STEPS:
        return frozenset()
    if scores.name in (*PRODUCTS, "torch.baddbmm"):
        return frozenset((-2, -1))
    if scores.name == "torch.einsum":
        return _compared_by_einsum(scores, depth)
    before = axis_moves.before_same_axes(scores)
    candidates = scores.inputs if scores.name in SCALING else (before,) if before is not None else ()
    return frozenset().union(*(compared_axes(each, depth + 1) for each in candidates))


def _compared_by_einsum(scores: Symbol, depth: int) -> frozenset[int]:
    """The letters of one operand; where one holds scores itself, which are mixed, those that these have left."""
    found = einsum_terms(scores)
    if found is None:
        return frozenset()
    terms, right, operands = found
    for term, operand in zip(terms, operands, strict=True):
        letters = {term[axis] for axis in compared_axes(operand, depth + 1) if -axis <= len(term)}
        if letters:
            break
    else:
        letters = {letter for letter in right if sum(letter in term for term in terms) == 1}
    return frozenset(right.index(letter) - len(right) for letter in letters if letter in right)


def _places(value: Value, product: Symbol, axis: int, shape_of: _ShapeOf, depth: int = 0) -> frozenset[int]:
    """Where an axis of what a product returns stands in a value that was made of it, if only axes were moved since,
    numbers normalized or mixed once more; in none where it is not made of it, or in another way."""
    if value is product:
        return frozenset((axis,))

    def inside(*values: Value) -> list[frozenset[int]]:
        return [_places(each, product, axis, shape_of, depth + 1) for each in values]

    if isinstance(value, Choice) and depth <= _MAX_STEPS:
        return frozenset().union(*inside(*(option for _, option in value.options)))
    if not isinstance(value, Symbol) or not value.inputs or depth > _MAX_STEPS:
        return frozenset()
    same = axis_moves.before_same_axes(value)
    if same is not None or value.name in SCALING:
        return frozenset().union(*inside(*(value.inputs if same is None else (same,))))
    factors = inside(*(operand for operand, _ in summed_of(value)))
    if factors:
        kept = (kept_at(value, index, each) for index, places in enumerate(factors) for each in places)
        return frozenset(place for place in kept if place is not None)
    (before,) = inside(value.inputs[0])
    order = order_after(value, shape_of) if before else []
    return frozenset(order.index(each) - len(order) for each in before if each in order)
