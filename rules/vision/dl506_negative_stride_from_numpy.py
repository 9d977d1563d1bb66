"""A flipped array that torch cannot take: `torch.from_numpy(image[::-1])`.

A slice with a step of -1, `np.flip` and `np.rot90` return a view with negative strides, and tensors have none. The line
often stands in a branch that only some samples take, such as a random flip.

Measured on torch 2.13 and numpy 2.4: `torch.from_numpy`, `as_tensor` and `torch.tensor` all raise `ValueError: At least
one stride in the given numpy array is negative`; after `.copy()`, `np.ascontiguousarray`, arithmetic, a cast to another
type or an index such as `[..., [2, 1, 0]]` they do not.

## Bad
    import cv2
    image = cv2.imread("photo.png")
    x = torch.from_numpy(image[:, :, ::-1])

## Good
    import cv2
    image = cv2.imread("photo.png")
    x = torch.from_numpy(image[:, :, ::-1].copy())

## Not reported
Lists, arrays that are copied or computed with after the flip, and values that are not known to be arrays.

## Fix (safe)
Copies the view: `.copy()`.

## On real code
168 public repositories: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Context, Edits, Finding, LibraryCall, Rule, Site, Symbol, Value, replace_range

_TAKERS = ("torch.from_numpy", "torch.as_tensor", "torch.tensor")
_FLIPS = ("numpy.flip", "numpy.fliplr", "numpy.flipud", "numpy.rot90")
_VIEWS = (".transpose", "numpy.transpose", ".swapaxes", "numpy.moveaxis", "numpy.asarray")


class NegativeStrideFromNumpy(Rule):
    code = "DL506"
    name = "negative-stride-from-numpy"
    category = "correctness"
    severity = "error"
    triggers = (("from_numpy", "as_tensor", "tensor"), ("numpy", "cv2"))
    fix_safety = "safe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.from_numpy.html",)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        given = event.arguments.get(0, "data") if event.name in _TAKERS else None
        flip = _flip_in(given) if given is not None else None
        if given is not None and flip is not None and flip.site is not None:
            yield ctx.finding(
                self,
                event,
                f"`{event.name}` gets a view with negative strides",
                on=[given],
                effect="it raises `ValueError: At least one stride in the given numpy array is negative`",
                help="copy the view first: `.copy()`",
                trace=[(flip.site, "is flipped, as a view"), (event.site, "and torch has no negative strides")],
                fix=("Copy the view", _copied(event.site, ctx)),
            )


def _flip_in(value: Value) -> Symbol | None:
    """The flip that a value is a view of."""
    while isinstance(value, Symbol) and value.inputs:
        if value.name in _FLIPS or (value.name == "item" and "::-1" in str(value.detail)):
            return value if value.name in _FLIPS or _is_array(value.inputs[0]) else None
        if value.name not in _VIEWS and not (value.name == "attribute" and value.detail == "T"):
            return None
        value = value.inputs[0]
    return None


def _is_array(value: Value) -> bool:
    """Whether a function of numpy or OpenCV has made a value, or one that it is a part or a method's result of."""
    while isinstance(value, Symbol):
        if value.name.startswith(("numpy.", "cv2.")):
            return True
        if not value.inputs or not (value.name == "item" or value.name in (".astype", ".copy", *_VIEWS)):
            return False
        value = value.inputs[0]
    return False


def _copied(call: Site, ctx: Context) -> Edits:
    node = call.node
    given = node.args[0] if isinstance(node, ast.Call) and node.args else None
    if not isinstance(given, ast.Subscript | ast.Call | ast.Name | ast.Attribute):
        return Edits()
    place = Site(call.module, given)
    return replace_range(place, f"{ctx.source_of(place)}.copy()")
