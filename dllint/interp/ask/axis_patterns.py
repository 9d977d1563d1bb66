"""Axes that a text names: equations of ``torch.einsum`` and patterns of einops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from dllint.interp.ask.shape import Shape
from dllint.interp.ask.sizes import Meaning, Size, of_axis, product
from dllint.interp.source.axis_facts import axis_facts
from dllint.values import Const, Symbol, Value

_ShapeOf = Callable[[Value], Shape]


def einsum_terms(result: Symbol) -> tuple[list[str], str, tuple[Value, ...]] | None:
    """The letters of each operand, those of the result, and the operands of ``torch.einsum("bi,ij->bj", x, y)``."""
    equation, *operands = result.inputs
    if not isinstance(equation, Const) or not isinstance(equation.value, str) or "." in equation.value:
        return None
    left, arrow, right = equation.value.replace(" ", "").partition("->")
    terms = left.split(",")
    return (terms, right, tuple(operands)) if arrow and len(terms) == len(operands) else None


def by_einsum(result: Symbol, shape_of: _ShapeOf) -> Shape | None:
    """The shape of what ``torch.einsum`` returns."""
    found = einsum_terms(result)
    if found is None:
        return None
    terms, right, operands = found
    sizes: dict[str, Size] = {}
    for term, operand in zip(terms, operands, strict=True):
        whole = shape_of(operand).of_rank(len(term))
        for index, letter in enumerate(term):
            size = whole.axis(index)
            if size is not None and (letter not in sizes or sizes[letter].known is None):
                sizes[letter] = size
    return Shape(tuple(sizes.get(letter) or of_axis(result, index) for index, letter in enumerate(right)))


def by_pattern(result: Symbol, shape_of: _ShapeOf) -> Shape | None:
    """The shape of what ``rearrange``, ``reduce`` or ``repeat`` returns."""
    arguments = result.arguments
    pattern = arguments.get(1, "pattern") if arguments is not None else None
    if arguments is None or not isinstance(pattern, Const) or not isinstance(pattern.value, str):
        return None
    return rearranged(result, pattern.value, shape_of(result.inputs[0]), arguments.keywords)


def rearranged(result: Symbol, pattern: str, shape: Shape, told: Mapping[str, Value]) -> Shape | None:
    """What a pattern such as ``b c h w -> b (h w) c`` makes of a tensor."""
    left, arrow, right = pattern.partition("->")
    if not arrow or "..." in pattern:
        return None
    before, after = _groups(left), _groups(right)
    sizes: dict[str, Size] = {"1": Size()}
    whole = shape.of_rank(len(before))
    names = sorted({name for group in (*before, *after) for name in group})
    for index, group in enumerate(before):
        size = whole.axis(index)
        if len(group) == 1 and size is not None:
            sizes[group[0]] = size
    for index, name in enumerate(names):
        number = told.get(name)
        known = number.value if isinstance(number, Const) and isinstance(number.value, int) else None
        size = Size(known) if known is not None else sizes.get(name) or of_axis(result, -1 - index)
        sizes[name] = size if size.meaning else size.meant(meaning_of(name))
    return Shape(tuple(product(sizes[name] for name in group) for group in after))


def _groups(side: str) -> list[list[str]]:
    """The names of a side of a pattern, for each axis: ``b (h w)`` are two axes."""
    groups: list[list[str]] = []
    is_open = False
    for word in side.replace("(", " ( ").replace(")", " ) ").split():
        if word in "()":
            is_open = word == "("
            if is_open:
                groups.append([])
        elif is_open:
            groups[-1].append(word)
        else:
            groups.append([word])
    return groups


def meaning_of(name: str) -> Meaning:
    """What the name of an axis says that its steps are."""
    return cast("Meaning", axis_facts().names.get(name.lower(), ""))
