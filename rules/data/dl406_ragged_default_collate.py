"""Detection targets of different lengths, which the default collate function cannot put into a batch.

The target of an image in `CocoDetection` and `VOCDetection` is a list of objects, one as long as there are objects. The
`DataLoader` puts samples together item by item, and fails at the first batch whose images differ in that, which may
come late.

Measured on torch 2.13: `RuntimeError: each element in list of batch should be of equal size`, in batches of 4; where
all images have two objects, nothing is wrong.

## Bad
    train_set = datasets.CocoDetection("images", "train.json", transform=transforms.ToTensor())
    loader = DataLoader(train_set, batch_size=4, shuffle=True)
    for images, targets in loader:
        train(model, images, targets)

## Good
    train_set = datasets.CocoDetection("images", "train.json", transform=transforms.ToTensor())
    loader = DataLoader(train_set, batch_size=4, shuffle=True, collate_fn=lambda batch: tuple(zip(*batch)))
    for images, targets in loader:
        train(model, images, targets)

## Not reported
Batches of one; a `target_transform` or `transforms`, which may make targets of one size; datasets of the project, whose
samples may be padded; loaders that nobody reads.

## On real code
283 public repositories: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, Instance, LoaderCreated, Rule, Value, alternatives

_RAGGED = frozenset(f"torchvision.datasets.{name}" for name in ("CocoDetection", "VOCDetection", "Kitti", "WIDERFace"))
_CHANGING = ("target_transform", "transforms")

# ------------------------------------------------------------------------------------------------- excuses


def is_collated_otherwise(event: LoaderCreated, dataset: Instance, ctx: Context) -> bool:
    """the loader has a `collate_fn`, or its batches come from elsewhere"""
    return any(name in event.options for name in ("collate_fn", "batch_sampler"))


def is_one_by_one(event: LoaderCreated, dataset: Instance, ctx: Context) -> bool:
    """its batches are of one sample, or their size is not known"""
    return ctx.data.batch_size(event.loader) in (None, 1)


def has_changed_targets(event: LoaderCreated, dataset: Instance, ctx: Context) -> bool:
    """a transform may make targets of one size"""
    given = ctx.data.arguments(dataset)
    return any(name in given and not ctx.is_none(given[name]) for name in _CHANGING)


class RaggedDefaultCollate(Rule):
    code = "DL406"
    name = "ragged-default-collate"
    category = "correctness"
    severity = "warning"
    triggers = (("DataLoader",), ("CocoDetection", "VOCDetection", "Kitti", "WIDERFace"))
    references = ("https://docs.pytorch.org/docs/stable/data.html#working-with-collate-fn",)
    excuses = (is_collated_otherwise, is_one_by_one, has_changed_targets)

    def on_loader_created(self, event: LoaderCreated, ctx: Context) -> Iterator[Finding]:
        dataset = next(_ragged(event.dataset, ctx), None)
        if dataset is None or not ctx.data.is_read(event.loader) or ctx.excused(self, event, dataset):
            return
        name = ctx.class_name(dataset)
        made = [(dataset.site, f"each sample of `{name}` has as many objects as the image")] if dataset.site else []
        yield ctx.finding(
            self,
            event,
            f"samples of `{name}` differ in length, and the default `collate_fn` cannot stack them",
            on=[event.dataset, event.options.get("batch_size"), dataset],
            assuming=ctx.assumed_batches(event.loader),
            effect="the loader fails at the first batch whose images have different numbers of objects",
            help="pass a `collate_fn`, such as `lambda batch: tuple(zip(*batch))`",
            trace=[*made, (event.site, "this loader puts them into batches")],
        )


def _ragged(value: Value | None, ctx: Context) -> Iterator[Instance]:
    """The dataset whose samples differ in length, if all that a loader may draw from are such."""
    options = [option for _, option in alternatives(value)] if value is not None else []
    for option in options:
        behind = ctx.data.datasets(option)
        yield from (each for each in behind if isinstance(each.cls, str) and each.cls in _RAGGED)
