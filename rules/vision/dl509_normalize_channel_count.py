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
`Grayscale(num_output_channels=3)`, a number for all channels, and numbers that are not known; projects that say that
they run with torchvision before 0.3, which took as many numbers as the image has channels; a pipeline that is made in
one arm of a branch, and a dataset in another one.

## On real code
276 public repositories: no finding, after one in which conditions decide about dataset and pipeline apart. Of 9 in
unread ones 7 were true, 1 doubtful (an old torchvision) and 1 false, as the branch with the dataset makes no pipeline.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import (
    Context,
    DatasetCreated,
    Event,
    Finding,
    Instance,
    Normalization,
    Rule,
    TransformsComposed,
    Value,
    assumed_under,
)

_GRAY = frozenset(
    f"torchvision.datasets.{name}"
    for name in ("MNIST", "FashionMNIST", "KMNIST", "EMNIST", "QMNIST", "USPS", "Omniglot", "SEMEION", "FER2013")
)
_COLORING = frozenset(("", "Lambda", "Grayscale", "RGB"))

# ------------------------------------------------------------------------------------------------- excuses


def is_early_torchvision(event: DatasetCreated, each: Normalization, ctx: Context) -> bool:
    """the project runs with a torchvision that takes as many numbers as the image has channels"""
    return ctx.runs_before("torchvision", "0.3")


def is_decided_apart(event: DatasetCreated, each: Normalization, ctx: Context) -> bool:
    """conditions decide about the dataset, and others about its pipeline, which may go together"""
    return bool(each.guards) and any(guard not in each.guards for guard in event.guards)


def is_made_in_another_arm(event: DatasetCreated, each: Normalization, ctx: Context) -> bool:
    """the pipeline is made in one arm of a branch, and the dataset in the other one, which has none"""
    others = (other for other in ctx.all_of(TransformsComposed) if ctx.exclusive(other, event))
    return any(item is each.normalize for other in others for item in other.items or ())


class NormalizeChannelCount(Rule):
    code = "DL509"
    name = "normalize-channel-count"
    category = "correctness"
    severity = "warning"
    triggers = (("Normalize",), ("Compose",))
    references = ("https://docs.pytorch.org/vision/stable/generated/torchvision.transforms.v2.Normalize.html",)
    excuses = (is_early_torchvision, is_decided_apart, is_made_in_another_arm)

    def on_dataset_created(self, event: DatasetCreated, ctx: Context) -> Iterator[Finding]:
        dataset = event.dataset
        if not isinstance(dataset, Instance) or dataset.library_name not in _GRAY:
            return
        name = ctx.class_name(dataset)
        message = f"`Normalize` has numbers for three channels, and images of `{name}` have one"
        for step in ctx.data.applied(dataset):
            for each in ctx.data.normalizations(step.value, step.guards):
                if each is None or len(each.mean) != 3 or any(inner.kind in _COLORING for inner in each.before):
                    continue
                if not ctx.excused(self, event, each):
                    yield self._report(event, dataset, each, message, [], ctx)

    def on_transforms_composed(self, event: TransformsComposed, ctx: Context) -> Iterator[Finding]:
        for each in ctx.data.normalizations(event.composition):
            if each is not None and len(each.mean) != len(each.std) and 1 not in (len(each.mean), len(each.std)):
                counts = f"{len(each.mean)} means and {len(each.std)} deviations"
                yield self._report(event, event.composition, each, f"`Normalize` has {counts}", [], ctx)
            elif each is not None and len(each.mean) == 3:
                gray = [step.value for step in each.before if step.kind == "Grayscale"]
                if gray and _is_single(gray[-1], ctx) and not any(step.kind in ("", "Lambda") for step in each.before):
                    message = "`Normalize` has numbers for three channels, and the image has one"
                    yield self._report(event, event.composition, each, message, gray, ctx)

    def _report(
        self, event: Event, user: Value, each: Normalization, message: str, gray: list[Value], ctx: Context
    ) -> Finding:
        library = each.normalize.library_name
        return ctx.finding(
            self,
            each.site,
            message,
            on=[user, *gray],
            assuming=[*assumed_under(each.guards), *ctx.assumed_use(user, "the pipeline")],
            effect="an image of one channel comes out with three"
            if ".v2." in library and message.endswith("one")
            else "it raises `RuntimeError`",
            help="give one mean and one deviation for each channel",
            trace=[
                (event.site, "the dataset" if isinstance(event, DatasetCreated) else "the pipeline"),
                (each.site, "has numbers for another count of channels"),
            ],
        )


def _is_single(gray: Value, ctx: Context) -> bool:
    given = gray.arguments.get(0, "num_output_channels") if isinstance(gray, Instance) else None
    return given is None or ctx.constant(given) == 1
