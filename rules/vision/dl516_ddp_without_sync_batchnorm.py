"""Batch norm under `DistributedDataParallel`, where each rank takes the statistics of its own part of the batch.

`BatchNorm` knows nothing of other ranks. Each normalizes with the mean and deviation of its samples, and the running
statistics that are saved are those of the first rank. With many samples on each rank that does no harm, with few the
statistics are mostly chance. `SyncBatchNorm` takes them over all ranks.

Measured on torch 2.13 (normal numbers, whose variance is 1): over 2 values the variance of a batch spreads by .71, over
4 by .62, over 16 by .34, over 64 by .17.

## Bad
    import torchvision
    model = torchvision.models.resnet50().cuda(rank)
    model = nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## Good
    import torchvision
    model = torchvision.models.resnet50().cuda(rank)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    model = nn.parallel.DistributedDataParallel(model, device_ids=[rank])
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## Not reported
Models without batch norm, or whose layers are not known; projects that speak of synchronized batch norm; models that
nothing trains here.

Off by default: whether it matters depends on how many values each rank has for a channel, which code seldom tells.

## Fix (unsafe)
Converts the model where it is wrapped. Unsafe because the statistics become others, and the ranks wait for each other.

## On real code
276 public repositories: 1 finding, in the code of a book.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Backward, Context, Edits, Finding, ModelChanged, Program, Rule, Site, replace_range, spelling_of

_SYNCHRONIZED = r"(?i)sync_?(batch_?norm|bn)|convert_sync"
_WRAPPER = "torch.nn.parallel.DistributedDataParallel"

# ------------------------------------------------------------------------------------------------- excuses


def is_synchronized_elsewhere(event: ModelChanged, ctx: Context) -> bool:
    """the project speaks of synchronized batch norm"""
    return ctx.project_mentions(_SYNCHRONIZED, where="here") or ctx.project_mentions(_SYNCHRONIZED)


class DdpWithoutSyncBatchnorm(Rule):
    code = "DL516"
    name = "ddp-without-sync-batchnorm"
    category = "suspicious"
    severity = "info"
    default = False
    triggers = (("DistributedDataParallel",), ("backward",))
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html",)
    excuses = (is_synchronized_elsewhere,)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        losses = [
            event.loss for event in ctx.all_of(Backward) if isinstance(event, Backward) and event.loss is not None
        ]
        for event in ctx.all_of(ModelChanged):
            if not isinstance(event, ModelChanged) or event.action != _WRAPPER or not ctx.has_batch_norm(event.model):
                continue
            trained = next((m for loss in losses for m in ctx.models_behind(loss) if ctx.is_same(m, event.model)), None)
            if trained is not None and not ctx.excused(self, event):
                yield ctx.finding(
                    self,
                    event,
                    "each rank normalizes with the statistics of its own samples",
                    on=[event, event.model, trained],
                    effect="with few samples on a rank the statistics are mostly chance",
                    help="convert the model first: `nn.SyncBatchNorm.convert_sync_batchnorm(model)`",
                    trace=[(event.site, "wraps a model with batch norm")],
                    fix=("Synchronize batch norm", _sync_converted(event.site, ctx)),
                )


def _sync_converted(call: Site, ctx: Context) -> Edits:
    library = spelling_of("torch.nn.SyncBatchNorm", call)
    given = call.node.args[0] if isinstance(call.node, ast.Call) and call.node.args else None
    if not library or given is None or isinstance(given, ast.Starred):
        return Edits()
    place = Site(call.module, given)
    return replace_range(place, f"{library}.convert_sync_batchnorm({ctx.source_of(place)})")
