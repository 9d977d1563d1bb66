"""Numbers for three channels and an image of one, or means and deviations of different length.

`Normalize` of the first version raises for it. That of `transforms.v2` broadcasts: an image of one channel comes out
with three, each normalized otherwise, and the next layer takes them or fails far away.

Measured on torchvision 0.29: numbers for three channels on a tensor of one raise `output with shape [1, 4, 4] doesn't
match the broadcast shape [3, 4, 4]`; `v2.Normalize` returns a tensor of shape [3, 4, 4]. One number for an image of
three channels is legal, and used for all.

## Bad
    from torchvision import transforms
    normalize = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    pipeline = transforms.Compose([transforms.Grayscale(), transforms.ToTensor(), normalize])
    dataset = datasets.ImageFolder("train", pipeline)

## Good
    from torchvision import transforms
    normalize = transforms.Normalize([0.449], [0.226])
    pipeline = transforms.Compose([transforms.Grayscale(), transforms.ToTensor(), normalize])
    dataset = datasets.ImageFolder("train", pipeline)

## Not reported
`Grayscale(num_output_channels=3)`, a number for all channels, and numbers that are not known.

## On real code
168 public repositories: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, Instance, Normalization, Rule, TransformsComposed, Value, assumed_under


class NormalizeChannelCount(Rule):
    code = "DL509"
    name = "normalize-channel-count"
    category = "correctness"
    severity = "warning"
    triggers = (("Normalize",), ("Compose",))
    references = ("https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.Normalize.html",)

    def on_transforms_composed(self, event: TransformsComposed, ctx: Context) -> Iterator[Finding]:
        for each in ctx.data.normalizations(event.composition):
            if each is not None and len(each.mean) != len(each.std) and 1 not in (len(each.mean), len(each.std)):
                counts = f"{len(each.mean)} means and {len(each.std)} deviations"
                yield self._report(event, each, f"`Normalize` has {counts}", [], ctx)
            elif each is not None and len(each.mean) == 3:
                gray = [step.value for step in each.before if step.kind == "Grayscale"]
                if gray and _is_single(gray[-1], ctx) and not any(step.kind in ("", "Lambda") for step in each.before):
                    yield self._report(
                        event, each, "`Normalize` has numbers for three channels, and the image has one", gray, ctx
                    )

    def _report(
        self, event: TransformsComposed, each: Normalization, message: str, gray: list[Value], ctx: Context
    ) -> Finding:
        library = each.normalize.library_name
        return ctx.finding(
            self,
            each.site,
            message,
            on=[event.composition, *gray],
            assuming=[*assumed_under(each.guards), *ctx.assumed_use(event.composition, "the pipeline")],
            effect="an image of one channel comes out with three"
            if ".v2." in library and gray
            else "it raises `RuntimeError`",
            help="give one mean and one deviation for each channel",
            trace=[(event.site, "the pipeline"), (each.site, "has numbers for another count of channels")],
        )


def _is_single(gray: Value, ctx: Context) -> bool:
    given = gray.arguments.get(0, "num_output_channels") if isinstance(gray, Instance) else None
    return given is None or ctx.constant(given) == 1
