"""A `squeeze()` that also drops the axis of the batch, where a batch has one sample.

`squeeze()` without an axis removes all axes of one step. Of `(N, 1)` that leaves `(N,)`, and of `(1, 1)` a single
number: the last batch of an epoch has one sample if the length of the data leaves a remainder of one. Binary
cross-entropy then stops the run with an error, at the end of an epoch, or in the evaluation that follows.

Measured on torch 2.13 (33 samples, batches of 32): `binary_cross_entropy_with_logits(head(x).squeeze(), y)` and
`binary_cross_entropy` raise a `ValueError` in the second batch; `mse_loss` and `cross_entropy` go on.

## Bad
    head = nn.Linear(8, 1)
    for x, y in DataLoader(data, batch_size=32):
        loss = F.binary_cross_entropy_with_logits(head(x).squeeze(), y)

## Good
    head = nn.Linear(8, 1)
    for x, y in DataLoader(data, batch_size=32):
        loss = F.binary_cross_entropy_with_logits(head(x).squeeze(1), y)

## Not reported
Other losses, which take both shapes, batches of unknown loaders, loaders that drop the last batch, batches of one
sample, and targets that are squeezed the same way. Whether a last batch has one sample depends on the data: where
their number is not written (`random_split(data, [257, 100])`), such a finding is a question.

## Fix (unsafe)
Names the axis, `squeeze(1)`, where the tensor has two. Unsafe because the numbers of axes of other inputs may change.

## On real code
211 public repositories with a `squeeze()` or a bidirectional layer: 2 questions in one, where the length of the data
(60,000 and 10,000) leaves no remainder of one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice

from dllint.api import (
    Assumption,
    Assumptions,
    Context,
    Edits,
    Finding,
    Guards,
    Instance,
    LossCall,
    Rule,
    Symbol,
    Value,
    alternatives,
    assumed_under,
    set_argument,
)

_RAISE = (
    "torch.nn.functional.binary_cross_entropy_with_logits",
    "torch.nn.functional.binary_cross_entropy",
)
_ONE_LEFT = Assumption("effect", "the last batch of an epoch has one sample")
_ROW_FOR_ROW = Assumption("name", "the model returns something for each sample of a batch")
_LOADER = "torch.utils.data.DataLoader"


# ------------------------------------------------------------------------------------------------- excuses


def is_never_one(event: LossCall, loader: Instance, ctx: Context) -> bool:
    """the loader drops a last batch that is smaller, or all of its batches have one sample"""
    drops = loader.arguments.get(8, "drop_last")
    is_dropped = not loader.arguments.exact or ctx.constant(drops) not in (None, False)
    return is_dropped or ctx.data.batch_size(loader) == 1 or _left_over(loader, ctx) not in (1, None)


def is_told_how_many(event: LossCall, loader: Instance, ctx: Context) -> bool:
    """a condition on the size of the batch decides whether the loss is computed"""
    return any(word in str(guard.subject) for guard in event.guards for word in ("shape", "size(", "dim(", "len("))


class SqueezeDropsBatch(Rule):
    code = "DL830"
    name = "squeeze-drops-batch"
    category = "correctness"
    severity = "warning"
    since = "0.1.0"
    triggers = (
        ("squeeze",),
        ("BCELoss", "BCEWithLogitsLoss", "binary_cross_entropy", "binary_cross_entropy_with_logits"),
    )
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.squeeze.html",)
    excuses = (is_never_one, is_told_how_many)

    def on_loss_call(self, event: LossCall, ctx: Context) -> Iterator[Finding]:
        if event.loss not in _RAISE or event.input is None or event.target is None:
            return
        given, wanted = (list(_squeezed(value, ctx)) for value in (event.input, event.target))
        for guards, found in [] if given and wanted else given + wanted:
            loader = _loader_of(found, ctx) if _is_of_batch(found.inputs[0], ctx) else None
            if loader is not None and not ctx.excused(self, event, loader):
                yield self._report(event, guards, found, loader, ctx)

    def _report(self, event: LossCall, guards: Guards, squeeze: Symbol, loader: Instance, ctx: Context) -> Finding:
        at = squeeze.site or event.site
        return ctx.finding(
            self,
            at,
            "this `squeeze()` drops the axis of the batch as well, where a batch has one sample",
            on=[event, loader, *ctx.models_behind(squeeze), *_layers_left_alone(event, squeeze, ctx)],
            assuming=[
                *assumed_under(guards),
                *([] if _left_over(loader, ctx) == 1 else [_ONE_LEFT]),
                *([] if ctx.shape(squeeze.inputs[0]).is_batch else [_ROW_FOR_ROW]),
            ],
            effect="the loss gets inputs and targets of different shapes, and raises an error",
            help="name the axis: `squeeze(1)`, or `squeeze(-1)`",
            trace=[(event.site, "the loss compares the shapes")] if at is not event.site else [],
            fix=("Name the axis", _with_axis(squeeze, ctx)),
        )


def _squeezed(value: Value, ctx: Context) -> Iterator[tuple[Guards, Symbol]]:
    """The `squeeze()` of all axes behind what a value may be, each with its conditions."""
    for guards, option in alternatives(value):
        yield from ((guards, found) for found in islice(ctx.squeezed(option), 1))


def _is_of_batch(value: Value, ctx: Context) -> bool:
    """Whether the first axis is that of the batch, as it is of what a model returns, unless one knows better."""
    if ctx.shape(value).is_batch:
        return True
    if isinstance(value, Symbol) and value.name == "item" and isinstance(value.detail, int):
        value = value.inputs[0]  # `scores, weights = model(x)`
    is_call = isinstance(value, Symbol) and value.name in ("call", "forward") and len(value.inputs) > 1
    if not is_call or ctx.shape(value).sizes or not isinstance(value, Symbol):
        return False
    return ctx.guessed_role(value.inputs[0]) == "module" and ctx.shape(value.inputs[1]).is_batch


def _layers_left_alone(event: LossCall, squeeze: Symbol, ctx: Context) -> Assumptions:
    """That no code which could not be followed gives the models another last layer."""
    return tuple(each for model in ctx.models_behind(squeeze) for each in ctx.left_alone(event, model))


def _left_over(loader: Instance, ctx: Context) -> int | None:
    """How many samples the last batch of an epoch has, of those that do not fill one; ``None`` if it is not known."""
    samples, size = ctx.data.number_of_samples(loader.arguments.get(0, "dataset")), ctx.data.batch_size(loader)
    return samples % size if samples is not None and size else None


def _loader_of(value: Value, ctx: Context) -> Instance | None:
    behind = (source for source in ctx.sources(value) if isinstance(source, Instance))
    return next((source for source in behind if source.library_name == _LOADER), None)


def _with_axis(squeeze: Symbol, ctx: Context) -> Edits:
    """``squeeze(1)`` of what has the axes of the batch and of one number."""
    is_method = squeeze.site is not None and isinstance(squeeze.site.node, ast.Call) and squeeze.name == ".squeeze"
    if squeeze.site is None or not is_method or not ctx.shape(squeeze.inputs[0]).is_column:
        return Edits()
    return set_argument(squeeze.site, "dim", "-1")
