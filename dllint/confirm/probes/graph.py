"""Reading the graph that autograd has recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from torch import Tensor

_MOST_NODES = 20_000
_NEAR = 12  # operations between an activation and the weight of its layer
_WHOLE = ("View", "UnsafeView", "Reshape", "Transpose", "Permute", "T", "Squeeze", "Unsqueeze", "Clone", "ToCopy")
_PARTS = (
    "Slice",
    "Select",
    "Expand",
    "Alias",
    "Split",
    "Unbind",
    "Cat",
    "Index",
    "AsStrided",
    "Movedim",
    "SqueezeBackward",
)


def leaves(roots: Iterable[Tensor]) -> list[Tensor] | None:
    """The tensors that a backward pass from here sends gradients to; None where the graph is too large to look at."""
    roots = list(roots)
    found = {id(root): root for root in roots if root.grad_fn is None and root.requires_grad}
    behind = leaves_behind(root.grad_fn for root in roots)
    return None if behind is None else list((found | {id(leaf): leaf for leaf in behind}).values())


def leaves_behind(starts: Iterable[Any]) -> list[Tensor] | None:
    """The same, from some operations on."""
    found: dict[int, Tensor] = {}
    for number, node in enumerate(_behind(starts)):
        variable = getattr(node, "variable", None)
        if variable is not None:
            found[id(variable)] = variable
        if number == _MOST_NODES:
            return None
    return list(found.values())


def nodes(roots: Iterable[Tensor]) -> Iterator[Any]:
    """The operations behind some tensors, the last first; not all of them where the graph is very large."""
    return islice(_behind(root.grad_fn for root in roots), _MOST_NODES)


def _behind(starts: Iterable[Any]) -> Iterator[Any]:
    open_nodes = [start for start in starts if start is not None]
    seen = set(open_nodes)
    while open_nodes:
        node = open_nodes.pop()
        yield node
        for following in children(node):
            if following not in seen:
                seen.add(following)
                open_nodes.append(following)


def nearest(start: Any, most: int, but: tuple[str, ...] = ()) -> Iterator[Any]:
    """The first operations behind one, with itself, the nearest first; none through those whose names end so."""
    open_nodes = [] if start is None else [start]
    while open_nodes and most:
        node = open_nodes.pop(0)
        if not (but and (operation(node).endswith(but) or node.name().endswith(but))):
            most -= 1
            yield node
            open_nodes += children(node)


def children(node: Any) -> list[Any]:
    """The operations whose results one has worked with, as far as they have gradients; none of no operation."""
    return [child for child, _ in node.next_functions if child is not None] if node is not None else []


def weight_behind(node: Any) -> Tensor | None:
    """The nearest parameter with two or more dimensions that goes into an operation, if it is near."""
    for near in nearest(node, _NEAR):
        for child in children(near):
            variable = getattr(child, "variable", None)
            if isinstance(variable, Tensor) and variable.dim() > 1:
                return variable
    return None


def origin(tensor: Tensor) -> str:
    """What computed a tensor, such as ``Softmax``, looking through operations that only change its shape."""
    return operation(_through(tensor.grad_fn, (*_WHOLE, *_PARTS)))


def through_views(node: Any) -> Any:
    """The first operation from here on that changes more than the shape of all elements; None if there is none."""
    return _through(node, _WHOLE)


def _through(node: Any, kinds: tuple[str, ...]) -> Any:
    while operation(node) in kinds:
        node = node.next_functions[0][0] if node.next_functions else None
    return node


def operation(node: Any) -> str:
    """``SoftmaxBackward0`` as ``Softmax``; empty for no operation."""
    return "" if node is None else str(node.name()).partition("Backward")[0].lstrip("_")
