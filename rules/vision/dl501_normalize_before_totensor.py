"""`Normalize` in front of the conversion to a tensor.

`Normalize` works on float tensors. In front of `ToTensor` it gets the PIL image or array that the dataset loads, in
front of `ToDtype` or `ConvertImageDtype` a tensor of bytes.

Measured with torchvision 0.29: `transforms.Normalize` raises `TypeError: img should be Tensor Image` and
`Input tensor should be a float tensor. Got torch.uint8`; `v2.Normalize` raises for PIL images (`Normalize() does not
support PIL images`) and **returns a numpy array unchanged**, so that training runs on data that is not normalized.

## Bad
    transforms.Compose([
        transforms.Normalize((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
        transforms.ToTensor(),
    ])

## Good
    transforms.Compose([
        transforms.ToTensor(),
        transforms.Normalize((0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)),
    ])

## Not reported
Pipelines with a conversion in front of `Normalize` as well, whatever follows (`ToTensor, Normalize, ToPILImage,
ToTensor`), a `ToPILImage` or an unknown step between the two, `Normalize` and `ToTensor` classes of the project's own
(they often work on arrays) or of albumentations, `Normalize, ToDtype` for tensors that may have been floats before,
and steps that are never there together.

## Fix (unsafe)
Moves `Normalize` after the conversion where both are written in the list itself. Unsafe because a pipeline that ran
gets other numbers, as it should.

## On real code
742 public repositories: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from dllint.api import (
    Assumption,
    Context,
    Edits,
    Finding,
    Instance,
    LibraryCall,
    Rule,
    Site,
    TransformsComposed,
    TransformStep,
    Value,
    assumed_under,
    replace_range,
    together,
)

_TO_TENSOR = frozenset(("ToTensor", "PILToTensor", "ToImage", "ToImageTensor"))
_TO_FLOAT = frozenset(("ToDtype", "ConvertImageDtype", "ConvertDtype", "ConvertImageDType"))
_CONVERSIONS = _TO_TENSOR | _TO_FLOAT
_OF_BYTES = _TO_TENSOR - {"ToTensor"}
_OF_FLOATS = _TO_FLOAT | {"ToTensor"}
_LOUD = frozenset(("ToTensor", "PILToTensor"))  # they raise for what is a tensor already, but those of v2
_CONTAINERS = frozenset(("RandomApply", "RandomChoice", "RandomOrder", "Lambda", "ToPILImage"))


class NormalizeBeforeToTensor(Rule):
    code = "DL501"
    name = "normalize-before-totensor"
    category = "correctness"
    severity = "error"
    triggers = (("Normalize",), tuple(sorted(_CONVERSIONS)))
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.Normalize.html",)

    def on_transforms_composed(self, event: TransformsComposed, ctx: Context) -> Iterator[Finding]:
        yield from self._check(event.composition, ctx)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if event.name == "torch.nn.Sequential":
            yield from self._check(event.result, ctx)

    def _check(self, composition: Value, ctx: Context) -> Iterator[Finding]:
        steps = ctx.data.steps(composition)
        for index, step in enumerate(steps):
            if step.kind == "Normalize":
                conversions = _conversions_behind(steps, index, ctx)
                if conversions:
                    yield self._report(composition, steps[: index + 1], conversions, ctx)

    def _report(
        self, composition: Value, upto: Sequence[TransformStep], conversions: list[TransformStep], ctx: Context
    ) -> Finding:
        conversion = conversions[0]
        normalizes, converts, last = upto[-1].value.site, conversion.value.site, conversions[-1].value.site
        assert normalizes is not None and converts is not None and last is not None
        place = _place_in_list(composition, normalizes, ctx)
        assumed = [*assumed_under((*upto[-1].guards, *conversion.guards))]
        if any(not step.kind or step.kind == "Lambda" for step in upto) and not _is_loud(conversion):
            assumed.append(Assumption("opaque", "no other step converts before"))
        given = "integers" if conversion.kind in _TO_FLOAT else "no tensor"
        return ctx.finding(
            self,
            place,
            f"`Normalize` stands before `{conversion.kind}`, so it gets {given}",
            on=[composition],
            assuming=[*assumed, *ctx.assumed_use(composition, "the pipeline")],
            effect="it raises `TypeError`; `v2.Normalize` returns a numpy array unchanged, and nothing is normalized",
            help=f"put `Normalize` after `{conversions[-1].kind}`",
            trace=[(normalizes, "the pipeline normalizes"), (converts, "and only then converts")],
            fix=("Normalize after the conversion", _moved(composition, normalizes, last, ctx)),
        )


def _is_loud(step: TransformStep) -> bool:
    """Whether a conversion raises for what is a tensor already, so that a step before that converts is no way out."""
    library = step.value.library_name if isinstance(step.value, Instance) else ""
    return step.kind in _LOUD and bool(library) and ".v2." not in library


def _conversions_behind(steps: Sequence[TransformStep], index: int, ctx: Context) -> list[TransformStep]:
    """The conversions that come too late for the step at ``index``; none if one may have come before."""
    normalize = steps[index]
    before = {step.kind for step in steps[:index] if ctx.consistent(step.guards, normalize.guards)}
    is_known = before.isdisjoint(("", "Lambda"))
    found: list[TransformStep] = []
    for step in steps[index + 1 :]:
        if not ctx.consistent(step.guards, normalize.guards):
            continue
        if step.kind in _TO_FLOAT:
            has_bytes = is_known and before & _OF_BYTES and not before & _OF_FLOATS
            return [*found, step] if has_bytes or found else []
        if step.kind in _TO_TENSOR:
            if before & _CONVERSIONS or not (is_known or step.kind in _LOUD):
                return []
            found.append(step)
        if not step.kind or step.kind in _CONTAINERS:
            break
    return found


def _place_in_list(composition: Value, normalize: Site, ctx: Context) -> Site:
    """Where `Normalize` is written in the list or added to it, else the list, else the composition."""
    place = ctx.data.list_site(composition) or composition.site
    assert place is not None
    is_added = isinstance(place.node, ast.List) and not place.node.elts and place.module is normalize.module
    return normalize if is_added or ctx.is_within(normalize, place) else place


def _moved(composition: Value, normalize: Site, conversion: Site, ctx: Context) -> Edits:
    """Shift the items from `Normalize` to the conversion by one, if all are written in one list."""
    place = ctx.data.list_site(composition)
    node = place.node if place is not None else None
    written = node.elts if isinstance(node, ast.List | ast.Tuple) else []
    nodes = [id(item) for item in written]
    if id(normalize.node) not in nodes or id(conversion.node) not in nodes:
        return Edits()
    items = [
        Site(normalize.module, item)
        for item in written[nodes.index(id(normalize.node)) : nodes.index(id(conversion.node)) + 1]
    ]
    texts = [ctx.source_of(item) for item in (*items[1:], items[0])]
    return together(*(replace_range(item, text) for item, text in zip(items, texts, strict=True)))
