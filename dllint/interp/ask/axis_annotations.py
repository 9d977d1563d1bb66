"""Axes that an annotation names: ``Float[Tensor, "batch channel height width"]`` of jaxtyping."""

from __future__ import annotations

import ast

from dllint.interp.ask.axis_patterns import meaning_of
from dllint.interp.ask.shape import Shape
from dllint.interp.ask.sizes import Factor, Size, of_axis
from dllint.interp.source.positions import enclosing_definition
from dllint.values import Symbol

_LIBRARY = "jaxtyping"
_MARKS = "#?"  # which may be broadcast, and which differs between the leaves of a tree


def annotated(parameter: Symbol) -> Shape | None:
    """The shape of a parameter of which nothing is known but its annotation.

    One name is one size in all annotations of a function. ``_`` is any size, ``*name`` and ``...`` any number of axes.
    """
    words = _words(parameter)
    if words is None:
        return None
    several = [index for index, word in enumerate(words) if word == "..." or word.startswith("*")]
    if len(several) > 1:
        return None
    sizes = [_size(word, index, parameter) for index, word in enumerate(words)]
    if not several:
        return Shape(tuple(sizes))
    at = several[0]
    return Shape(tuple(sizes[:at]), (parameter, at), tuple(sizes[at + 1 :]))


def _words(parameter: Symbol) -> list[str] | None:
    """The axes as an annotation spells them."""
    site = parameter.site
    node = site.node if site is not None else None
    if site is None or not isinstance(node, ast.arg) or _LIBRARY not in site.module.source.text:
        return None
    match node.annotation:
        case ast.Subscript(slice=ast.Tuple(elts=[_, ast.Constant(value=str(text))])):
            return text.split()
    return None


def _size(word: str, index: int, parameter: Symbol) -> Size:
    word = word.lstrip(_MARKS).partition("=")[2] or word.lstrip(_MARKS)
    if word.isdigit() and int(word) > 0:
        return Size(int(word))
    if not word.isidentifier() or word == "_":
        return of_axis(parameter, index)
    site = parameter.site
    scope = enclosing_definition(site) if site is not None else None
    return Size(1, (Factor(hash((id(scope), word)), None, word),), meaning_of(word))
