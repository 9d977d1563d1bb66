"""Samples of different lengths, which the default collate function cannot put into a batch.

The target of an image in `CocoDetection` and `VOCDetection` is a list of objects, one as long as there are objects. The
`DataLoader` puts samples together item by item, and fails at the first batch whose images differ in that, which may
come late. So it does for the words of captions, of which a dataset of the project makes a tensor each.

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
Batches of one; a `target_transform` or `transforms`, which may make targets of one size; datasets of the project that
speak of padding or of a largest length, or whose samples are not known; words that are brought to one length where
they are made (`n - len(ids)`, `[0] * missing`), in a helper as well; what `encode` returns, unless it is known to be a
tokenizer's or is joined with a list: that of sentences or boxes has one size; loaders that nobody reads.

## On real code
283 public repositories: no finding. In 44 others 1, which was false: a helper filled the words up. Of 4 that were
judged as read in later ones 1 was true and 3 false: an `encode` of sentences, one of boxes and a whole series were
taken for words. Since then an `encode` has to be a tokenizer's.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import (
    Assumption,
    Class,
    Const,
    Context,
    Finding,
    Guards,
    Instance,
    LoaderCreated,
    Rule,
    Site,
    alternatives,
    assumed_under,
)

_RAGGED = frozenset(f"torchvision.datasets.{name}" for name in ("CocoDetection", "VOCDetection", "Kitti", "WIDERFace"))
_PADDING = r"(?i)pad|max_?(len|num|obj|box|words|tokens)|seq_?len|fixed|zeros\(|truncat"
_CHANGING = ("target_transform", "transforms")

# ------------------------------------------------------------------------------------------------- excuses


def is_collated_otherwise(event: LoaderCreated, dataset: Instance, ctx: Context) -> bool:
    """the loader has a `collate_fn`"""
    given = event.options.get("collate_fn")
    return given is not None and not ctx.is_none(given)


def is_one_by_one(event: LoaderCreated, dataset: Instance, ctx: Context) -> bool:
    """its batches are of one sample, or put together by a sampler that is not known"""
    size = ctx.data.batch_size(event.loader)
    return size == 1 or (size is None and "batch_size" not in event.options)


def has_changed_targets(event: LoaderCreated, dataset: Instance, ctx: Context) -> bool:
    """a transform may make targets of one size"""
    given = ctx.data.arguments(dataset) if isinstance(dataset.cls, str) else {}
    return any(name in given and not ctx.is_none(given[name]) for name in _CHANGING)


def is_padded(event: LoaderCreated, dataset: Instance, ctx: Context) -> bool:
    """the dataset speaks of padding, or of a largest length"""
    return isinstance(dataset.cls, Class) and ctx.is_said_in(dataset.cls, _PADDING)


class RaggedDefaultCollate(Rule):
    code = "DL406"
    name = "ragged-default-collate"
    category = "correctness"
    severity = "warning"
    default = False
    preview = True
    triggers = (("DataLoader",), ("__getitem__", "CocoDetection", "VOCDetection", "Kitti", "WIDERFace"))
    references = ("https://docs.pytorch.org/docs/stable/data.html#working-with-collate-fn",)
    excuses = (is_collated_otherwise, is_one_by_one, has_changed_targets, is_padded)

    def on_loader_created(self, event: LoaderCreated, ctx: Context) -> Iterator[Finding]:
        guards, dataset, place = next(_ragged(event, ctx), ((), None, None))
        if dataset is None or not ctx.data.is_read(event.loader) or ctx.excused(self, event, dataset):
            return
        name = ctx.class_name(dataset)
        is_sized = ctx.data.batch_size(event.loader) is not None
        sized = () if is_sized else (Assumption("name", "`batch_size` is above one"),)
        made = (
            [(place, f"each sample of `{name}` has as many entries as there are objects, words or characters")]
            if place
            else []
        )
        yield ctx.finding(
            self,
            event,
            f"samples of `{name}` differ in length, and the default `collate_fn` cannot stack them",
            on=[event.dataset, event.options.get("batch_size"), dataset],
            assuming=[*assumed_under(guards), *sized, *ctx.assumed_batches(event.loader)],
            effect="the loader fails at the first batch whose samples differ in that",
            help="pass a `collate_fn`, such as `lambda batch: tuple(zip(*batch))`",
            trace=[*made, (event.site, "this loader puts them into batches")],
        )


def _ragged(event: LoaderCreated, ctx: Context) -> Iterator[tuple[Guards, Instance, Site | None]]:
    """The dataset whose samples differ in length, if all that a loader may draw from are such."""
    options = [option for _, option in alternatives(event.dataset)] if event.dataset is not None else []
    for option in options:
        for each in ctx.data.datasets(option):
            if isinstance(each.cls, str) and each.cls in _RAGGED:
                yield (), each, each.site
            elif isinstance(each.cls, Class):
                for guards, cause in ctx.data.ragged(each):
                    if not ctx.data.is_text(cause) or _is_collated_elsewhere(each, ctx):
                        yield guards, each, cause.site


def _is_collated_elsewhere(dataset: Instance, ctx: Context) -> bool:
    """Whether another loader over samples of the same class has a `collate_fn`."""
    others = (each for each in ctx.data.loaders if each.dataset is not None)
    return any(
        not ctx.is_none(each.options.get("collate_fn", Const(None)))
        for each in others
        if each.dataset is not None and any(one.cls is dataset.cls for one in ctx.data.datasets(each.dataset))
    )
