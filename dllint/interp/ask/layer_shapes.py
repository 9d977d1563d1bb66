"""What layers make of the last axis of a tensor, and which they refuse."""

from __future__ import annotations

from dllint.interp.ask.shape import Shape
from dllint.interp.ask.sizes import Size
from dllint.values import Instance, Symbol, Value

_NORMS = ("torch.nn.utils.spectral_norm", "torch.nn.utils.parametrizations.spectral_norm")


def with_last(result: Symbol, given: Shape, last: Size, *, is_added: bool = False) -> Shape:
    """What a layer makes that replaces the last axis or adds one. Those between are the result's own."""
    if given.rest is None:
        return Shape((*(given.sizes if is_added else given.sizes[:-1]), last))
    may_be_last = len(given.sizes) > 1 and not given.back and not is_added
    front = given.sizes[:-1] if may_be_last else given.sizes
    return Shape(front, (result, len(front)), (*(given.back if is_added else given.back[:-1]), last))


def is_refused(given: Shape, wanted: Size | None) -> bool:
    """Whether a layer wants another number of features than it is given: the call fails, and returns nothing."""
    last = given.axis(-1)
    numbers = (last.known, wanted.known) if last is not None and wanted is not None else (None, None)
    return None not in numbers and numbers[0] != numbers[1]


def without_norm(layer: Value) -> Value:
    """The layer whose weights ``spectral_norm(layer)`` norms: it returns the same layer."""
    is_normed = isinstance(layer, Instance) and layer.library_name in _NORMS
    given = layer.arguments.get(0, "module") if is_normed and isinstance(layer, Instance) else None
    return given if given is not None else layer
