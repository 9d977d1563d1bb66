"""A flipped array that torch cannot take: `torch.from_numpy(image[::-1])`.

A slice with a step of -1, `np.flip` and `np.rot90` return a view with negative strides, and tensors have none. The line
often stands in a branch that only some samples take, such as a random flip, or in a transform of the project that comes
before the one which makes tensors.

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
Lists, arrays that are copied or computed with after the flip, views that are flipped twice, and what `as_tensor` and
`torch.tensor` get that is not known to be an array (`from_numpy` takes nothing else). Where another branch copies what
was flipped, such a finding is a question.

## Fix (safe)
Copies the view: `.copy()`.

## On real code
276 public repositories: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    Const,
    Context,
    Edits,
    Event,
    Finding,
    Guards,
    LibraryCall,
    Program,
    Rule,
    Site,
    Symbol,
    TransformsComposed,
    Value,
    assumed_under,
    replace_range,
    ways,
)

_TAKERS = ("torch.from_numpy", "torch.as_tensor", "torch.tensor")
_CONVERTING = ("ToTensor", "ToImage")
_FLIPS = ("numpy.flip", "numpy.fliplr", "numpy.flipud", "numpy.rot90")
_VIEWS = (".transpose", "numpy.transpose", ".swapaxes", "numpy.moveaxis", "numpy.asarray")


class NegativeStrideFromNumpy(Rule):
    code = "DL506"
    name = "negative-stride-from-numpy"
    category = "correctness"
    severity = "error"
    triggers = (("from_numpy", "as_tensor", "tensor", "ToTensor", "ToImage"), ("numpy", "cv2"))
    fix_safety = "safe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.from_numpy.html",)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        given = event.arguments.get(0, "data") if event.name in _TAKERS else None
        if given is not None:
            yield from self._reported(event, event.name, given, _copied(event.site, ctx), ctx)

    def on_transforms_composed(self, event: TransformsComposed, ctx: Context) -> Iterator[Finding]:
        """What a transform of the project has flipped, and another one after it gives to torch."""
        for call in ctx.data.happening_in(event.composition):
            given = call.arguments.get(0, "data") if isinstance(call, LibraryCall) and call.name in _TAKERS else None
            if isinstance(call, LibraryCall) and given is not None:
                assumed = ctx.assumed_use(event.composition, "the pipeline")
                yield from self._reported(call, call.name, given, _copied(call.site, ctx), ctx, *assumed)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for dataset in ctx.data.made:
            for call in ctx.data.transformed(dataset):
                first = next(iter(ctx.data.steps(call.transform)), None)
                if first is not None and first.kind in _CONVERTING and call.result.site is not None:
                    assumed = (*ctx.data.assumed_reading(dataset), *assumed_under(call.guards))
                    yield from self._reported(call.result, first.kind, call.given, Edits(), ctx, *assumed)

    def _reported(
        self, at: Event | Symbol, taker: str, given: Value, edits: Edits, ctx: Context, *assumed: Assumption
    ) -> Iterator[Finding]:
        is_array = taker not in ("torch.as_tensor", "torch.tensor")
        found = list(_flips_in(given, is_array))
        if not found or at.site is None:
            return
        more, flip = found[0]
        assert flip.site is not None
        in_doubt = _in_doubt(more, flip, given, ctx) if len(found) < len(ways(given)) else ()
        yield ctx.finding(
            self,
            at.site,
            f"`{taker}` gets a view with negative strides",
            on=[at] if is_array else [at, given],  # what was flipped does not matter where nothing but arrays is taken
            assuming=[*assumed, *assumed_under(in_doubt)],
            effect="it raises `ValueError: At least one stride in the given numpy array is negative`",
            help="copy the view first: `.copy()`",
            trace=[(flip.site, "is flipped, as a view"), (at.site, "and torch has no negative strides")],
            fix=("Copy the view", edits),
        )


def _flips_in(value: Value, is_array: bool) -> Iterator[tuple[Guards, Symbol]]:
    """The flips that a value may be a view of, each with its conditions."""
    for guards, option in ways(value):
        flip = _flip_in(option, is_array)
        if flip is not None and flip.site is not None:
            yield guards, flip


def _in_doubt(guards: Guards, flip: Symbol, given: Value, ctx: Context) -> Guards:
    """The conditions under which a flip may never get to torch as it is.

    That a branch of the program which flips is taken is none, though few samples may take it, unless there is another
    one in which something is done with what was flipped, or with the same that was flipped there.
    """
    others = (option for _, option in ways(given) if _flip_in(option, is_array=True) is None)
    if any(_is_written_alike(each, flip) for option in others for each in ctx.sources(option)):
        return guards
    return tuple(guard for guard in guards if guard.assumption is not None)


def _is_written_alike(value: Value, flip: Symbol) -> bool:
    """Whether a value is a flip, or another that the same expression makes."""
    if value is flip or value.site is None or flip.site is None:
        return value is flip
    return ast.unparse(value.site.node) == ast.unparse(flip.site.node)


def _flip_in(value: Value, is_array: bool) -> Symbol | None:
    """The flip that a value is a view of; ``is_array`` says that it is an array, as nothing else is taken."""
    while isinstance(value, Symbol) and value.inputs:
        if _is_flip(value):
            inner = _flip_in(value.inputs[0], is_array)
            is_back = inner is not None and (inner.name, inner.detail) == (value.name, value.detail)
            return value if (value.name in _FLIPS or is_array or _is_array(value.inputs[0])) and not is_back else None
        if value.name not in _VIEWS and not (value.name == "attribute" and value.detail == "T"):
            return None
        value = value.inputs[0]
    return None


def _is_flip(value: Symbol) -> bool:
    if value.name == "slice":
        step = value.inputs[3] if len(value.inputs) > 3 else None
        return isinstance(step, Const) and step.value == -1
    return value.name in _FLIPS or (value.name == "item" and "::-1" in str(value.detail))


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
