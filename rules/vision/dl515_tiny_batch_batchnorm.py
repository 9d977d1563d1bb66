"""Batches of two to four samples for a batch norm of vectors.

Behind linear layers, batch norm takes mean and deviation of a channel from one value for each sample. Over two or four
values they are mostly chance: training sees other numbers than evaluation does, which takes running averages. Images of
many pixels give many values for each channel, and small batches of them do no harm.

Measured on torch 2.13: running variances spread by .25 over the channels with 2 values, by .14 with 4, .04 with 32, and
by .012 with 2 images of 14 by 14; the outputs of a small net that ends in batch norm differ between training and
evaluation by .91 with batches of 2, by .62 with 4 and by .35 with 32.

## Bad
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    for x, y in DataLoader(train_set, batch_size=2, shuffle=True, drop_last=True):
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## Good
    model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 2))
    for x, y in DataLoader(train_set, batch_size=2, shuffle=True, drop_last=True):
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## Not reported
Batches of one, for which batch norm raises; sizes that are a setting, of which the default is for a first try; batch
norms of images and sequences, frozen ones, and models whose layers are not known.

## On real code
280 public repositories: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Const, Context, Finding, LoaderCreated, ModeChange, Rule, Value

_FEW = range(2, 5)

# ------------------------------------------------------------------------------------------------- excuses


def is_frozen(event: LoaderCreated, model: Value, ctx: Context) -> bool:
    """parts of the model are in evaluation mode, or batch norms are frozen"""
    switches = [each for each in ctx.all_of(ModeChange) if isinstance(each, ModeChange) and not each.training]
    is_partly = any(not ctx.is_same(each.model, model) and ctx.reaches(model, each.model) for each in switches)
    return is_partly or ctx.project_mentions(r"(?i)freeze_?bn|frozen_?b|freeze_?batch|SyncBatchNorm", where="here")


class TinyBatchBatchnorm(Rule):
    code = "DL515"
    name = "tiny-batch-batchnorm"
    category = "suspicious"
    severity = "info"
    triggers = (("DataLoader",), ("BatchNorm1d",), ("backward",))
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm1d.html",)
    excuses = (is_frozen,)

    def on_loader_created(self, event: LoaderCreated, ctx: Context) -> Iterator[Finding]:
        given = event.options.get("batch_size")
        if not isinstance(given, Const) or given.value not in _FEW:
            return
        model = next((each for each in ctx.trained_with(event.loader) if ctx.normalizes_vectors(each)), None)
        if model is not None and not ctx.excused(self, event, model):
            yield ctx.finding(
                self,
                event,
                f"batch norm takes mean and deviation of {given.value} values",
                on=[event.loader, given, model],
                effect="they are mostly chance, and evaluation sees other numbers than training",
                help="use larger batches, or `LayerNorm`",
                trace=[(event.site, "gives so few samples at a time")],
            )
