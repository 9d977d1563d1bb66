"""A pretrained model whose images are not normalized as they were in its training.

The weights of torchvision and timm were learned on images minus a mean, divided by a deviation. Images from 0 to 1 are
another distribution: what the first layers take for gray is nearly white. Fine-tuning makes up for some of it, frozen
layers never do.

Measured on natural images: normalized with the numbers of ImageNet, the channels have a mean of 0.0 (up to .1) and a
deviation of .94 to 1.0; images from 0 to 1 have .46 and .22.

## Bad
    model = models.resnet18(weights="DEFAULT")
    pipeline = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor()])
    loader = DataLoader(datasets.ImageFolder("data/train", pipeline), batch_size=64, shuffle=True)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## Good
    model = models.resnet18(weights="DEFAULT")
    normalize = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    pipeline = transforms.Compose([transforms.Resize(256), transforms.ToTensor(), normalize])
    loader = DataLoader(datasets.ImageFolder("data/train", pipeline), batch_size=64, shuffle=True)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## Not reported
Models that are not told to load weights; detection and segmentation, whose models normalize by themselves; programs
whose code speaks of normalizing anywhere (`Normalize`, `weights.transforms()`, `AutoImageProcessor`, the numbers of
ImageNet), in a file that they import as well, unless it is a `Normalize` that is made and never used; pipelines beside
which a comment does. Other programs of the project, docstrings and notes do not count where a dataset of torchvision
reads the pictures; what another dataset reads may have been prepared by any of them. Datasets that subtract a mean by
themselves; pipelines with steps that are not known.

## On real code
276 public repositories: no finding, after one about a `TensorDataset`, of which nobody knows what was done to its
tensors before, and one about the data of another model.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dllint.api import (
    Backward,
    Class,
    Context,
    Finding,
    Instance,
    LibraryCall,
    LoaderCreated,
    Program,
    Rule,
    Site,
    TransformStep,
    Value,
    assumed_under,
)

_NORMALIZES = (
    r"[Nn]ormali[sz]e|0?\.485|\.transforms\(\)|ImageProcessor|FeatureExtractor|create_transform|IMAGENET_|data_config"
)
_BY_HAND = r"\b(mean|std|MEAN|STD)\b|normalize\("
_NORMALIZE = ("torchvision.transforms.Normalize", "torchvision.transforms.v2.Normalize")
_OTHER_TASKS = ("detection", "segmentation", "video", "optical_flow", "inception", "googlenet")
_KNOWN = frozenset(
    ("ToTensor", "Resize", "CenterCrop", "RandomCrop", "RandomResizedCrop", "RandomHorizontalFlip",
     "RandomVerticalFlip", "RandomRotation", "ColorJitter",
     "RandomAffine", "RandomErasing", "RandomPerspective", "GaussianBlur", "Pad",
     "RandomGrayscale", "RandAugment", "AutoAugment", "TrivialAugmentWide", "ToPILImage")
)  # fmt: skip


# ------------------------------------------------------------------------------------------------- excuses


def normalizes_somewhere(event: LoaderCreated, dataset: Instance, converts: Site, ctx: Context) -> bool:
    """code of the program speaks of normalizing images somewhere"""
    return ctx.code_says(_NORMALIZES)


def speaks_of_normalizing(event: LoaderCreated, dataset: Instance, converts: Site, ctx: Context) -> bool:
    """a comment beside the pipeline speaks of normalizing"""
    around = [converts, *(Site(converts.module, each) for each in ctx.ancestors(converts, ast.stmt))][:2]
    said = " ".join(text for place in around for text in (*ctx.comments_in(place), *ctx.comments_at(place)))
    return re.search(_NORMALIZES, said) is not None


def reads_prepared_images(event: LoaderCreated, dataset: Instance, converts: Site, ctx: Context) -> bool:
    """the project speaks of normalizing somewhere, and may have done so to what this dataset reads"""
    if dataset.library_name.startswith("torchvision.datasets."):  # which reads pictures, of 0 to 255
        return False
    return ctx.project_mentions(_NORMALIZES)


class PretrainedWithoutNormalize(Rule):
    code = "DL510"
    name = "pretrained-without-normalize"
    category = "suspicious"
    severity = "info"
    triggers = (("DataLoader",), ("pretrained", "weights"), ("ToTensor", "Normalize"))
    references = ("https://docs.pytorch.org/vision/stable/models.html#using-the-pre-trained-models",)
    excuses = (normalizes_somewhere, speaks_of_normalizing, reads_prepared_images)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        models = [event for event in ctx.all_of(LibraryCall) if _is_pretrained(event, ctx) and _trained(event, ctx)]
        forgotten = [
            call for name in _NORMALIZE for call in ctx.library_calls(name) if models and not ctx.is_used(call.result)
        ]
        if forgotten:
            yield from self._never_used(forgotten[0], models, ctx)
            return
        for event in ctx.data.loaders if models else ():
            if not ctx.data.is_trained_on(event.loader):
                continue
            for dataset in ctx.data.datasets(event.dataset):
                steps = [inner for step in ctx.data.applied(dataset) for inner in ctx.data.steps(step.value)]
                converts = next((step for step in steps if step.kind == "ToTensor"), None)
                if converts is None or any(step.kind not in _KNOWN for step in steps):
                    continue
                model = next((each for each in models if not _is_elsewhere(each, converts, ctx)), None)
                site = converts.value.site or event.site
                if model is not None and not ctx.excused(self, event, dataset, site):
                    yield self._report(event, dataset, model, converts, ctx)
                    return

    def _never_used(self, normalize: LibraryCall, models: list[LibraryCall], ctx: Context) -> Iterator[Finding]:
        """Datasets that are trained on, where a `Normalize` is made and nobody reads it."""
        for event in ctx.data.loaders:
            read = [
                each for each in ctx.data.datasets(event.dataset) if not each.library_name.startswith("torch.utils.")
            ]
            for dataset in read[:1]:
                steps = [inner for step in ctx.data.applied(dataset) for inner in ctx.data.steps(step.value)]
                is_known = all(step.kind in _KNOWN for step in steps) and not (
                    isinstance(dataset.cls, Class) and ctx.is_said_in(dataset.cls, _BY_HAND)
                )
                trained = ctx.trained_with(event.loader) if is_known else []
                is_for_it = any(_has_step(model, models[0].result, ctx) for model in trained)
                if is_for_it and dataset.site is not None:
                    yield ctx.finding(
                        self,
                        dataset.site,
                        "a pretrained model gets these images, and the `Normalize` for them is never used",
                        on=[models[0], models[0].result, dataset, event.loader],
                        assuming=ctx.assumed_batches(event.loader),
                        effect="its features fit less, and frozen layers never get used to it",
                        help="give the dataset the transform that normalizes",
                        trace=[
                            (models[0].site, "is pretrained"),
                            (normalize.site, "is made, and nobody reads it"),
                            (dataset.site, "and the images go without it"),
                        ],
                    )
                    return

    def _report(
        self, event: LoaderCreated, dataset: Instance, model: LibraryCall, converts: TransformStep, ctx: Context
    ) -> Finding:
        site: Site = converts.value.site or event.site
        return ctx.finding(
            self,
            site,
            "images of 0 to 1 go to a pretrained model, which has learned from normalized ones",
            on=[model, model.result, dataset, event.loader, converts.value],
            assuming=[
                *assumed_under(converts.guards),
                *ctx.assumed_batches(event.loader),
                *ctx.assumed_of_computation(_trained(model, ctx)[0], lambda value: value is model.result),
            ],
            effect="its features fit less, and frozen layers never get used to it",
            help="normalize with the numbers that the model was trained with",
            trace=[(model.site, "is pretrained"), (site, "and gets images of 0 to 1")],
        )


def _is_pretrained(event: LibraryCall, ctx: Context) -> bool:
    """Whether a call makes a classifier of torchvision or timm and loads its weights."""
    if not event.name.startswith(("torchvision.models.", "timm.create_model")):
        return False
    if any(task in event.name for task in _OTHER_TASKS):
        return False
    given = event.arguments.keywords
    flag, weights = given.get("pretrained"), given.get("weights")
    return (flag is not None and ctx.constant(flag) is True) or (weights is not None and not ctx.is_none(weights))


def _trained(event: LibraryCall, ctx: Context) -> list[Value]:
    """What computes a loss that is sent backward, and is a model or has it."""
    losses = (each.loss for each in ctx.all_of(Backward) if each.loss is not None)
    return [model for loss in losses for model in ctx.models_behind(loss) if _has_step(model, event.result, ctx)]


def _has_step(model: Value, part: Value, ctx: Context) -> bool:
    """Whether a model is, or has, a module or its layers: `nn.Sequential(*list(resnet.children())[:-2])`."""
    if ctx.reaches(model, part):
        return True
    held = (
        [each for each in model.attributes.values() if isinstance(each, Instance)]
        if isinstance(model, Instance)
        else []
    )
    return any(part is source for each in held for given in each.arguments.all() for source in ctx.sources(given))


def _is_elsewhere(model: LibraryCall, converts: TransformStep, ctx: Context) -> bool:
    """Whether the conditions of a model exclude those of a step."""
    made = (each for each in ctx.all_of(LibraryCall) if each.result is converts.value)
    return any(ctx.exclusive(model, each) for each in made)
