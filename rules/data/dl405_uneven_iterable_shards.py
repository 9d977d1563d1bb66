"""An `IterableDataset` that gives each rank a part, where one part may be longer than another.

Each step of `DistributedDataParallel` waits for all ranks. Where one has a batch more than the others, its last step
meets the first one of the next epoch on another rank, unnoticed, and at the end of the run it waits for good. With
`drop_last=True` the ranks still differ by a batch.

Measured on torch 2.13 with two ranks of which one has a batch more: after two epochs the first has ended, and the other
hangs two steps before its end; with `model.join()` both end.

## Bad
    class Lines(IterableDataset):
        def __iter__(self):
            for number, line in enumerate(open(self.path)):
                if number % self.world_size == self.rank:
                    yield line

    model = DistributedDataParallel(model, device_ids=[rank])
    for x in DataLoader(Lines(), batch_size=32):
        model(x).sum().backward()

## Good
    class Lines(IterableDataset):
        def __iter__(self):
            for number, line in enumerate(open(self.path)):
                if number % self.world_size == self.rank:
                    yield line

    model = DistributedDataParallel(model, device_ids=[rank])
    with model.join():
        for x in DataLoader(Lines(), batch_size=32):
            model(x).sum().backward()

## Not reported
Projects that bound the number of steps (`max_steps`, `islice` with an end, `with_epoch`) or use `join`; datasets that
are not split by rank.

Off by default: how long the parts are is in the data, not in the code.

## On real code
Not read yet: the rule is off.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Context, Finding, Program, Rule, Site, nodes_of

_BOUNDED = (
    r"\.join\(\)|\bJoin\(|max_steps|max_iter|total_steps|num_steps|steps_per_epoch|with_length|with_epoch|samples_per_"
)
_RANKS = frozenset(("rank", "local_rank", "global_rank", "get_rank", "process_index"))
_SIZES = frozenset(("world_size", "get_world_size", "num_replicas", "num_processes", "n_gpus"))

# ------------------------------------------------------------------------------------------------- excuses


def is_bounded(place: Site, ctx: Context) -> bool:
    """the number of steps is bounded, or ranks wait for each other at the end"""
    return ctx.project_mentions(_BOUNDED, where="here") or ctx.project_mentions(_BOUNDED)


def has_no_wrapper(place: Site, ctx: Context) -> bool:
    """no model is wrapped for several ranks"""
    return not (ctx.mentions("DistributedDataParallel", where="here") or ctx.mentions("DistributedDataParallel"))


class UnevenIterableShards(Rule):
    code = "DL405"
    name = "uneven-iterable-shards"
    category = "suspicious"
    severity = "info"
    default = False
    triggers = (("IterableDataset",), ("rank", "local_rank", "global_rank", "get_rank", "process_index"))
    of_files = True
    references = ("https://docs.pytorch.org/tutorials/advanced/generic_join.html",)
    excuses = (is_bounded, has_no_wrapper)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for owner in nodes_of(program.module.tree).of(ast.ClassDef):
            if isinstance(owner, ast.ClassDef) and any("IterableDataset" in ast.unparse(base) for base in owner.bases):
                for method in owner.body:
                    if isinstance(method, ast.FunctionDef) and method.name == "__iter__" and _is_by_rank(owner):
                        place = Site(program.module, method)
                        if not ctx.excused(self, place):
                            yield self._report(place, ctx)

    def _report(self, place: Site, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            place,
            "each rank gets a part, and one part may be longer than another",
            effect="the rank with a batch more waits for the others at the end of the run",
            help="give all ranks as many steps, or train under `model.join()`",
            trace=[(place, "yields the samples of a rank")],
        )


def _is_by_rank(owner: ast.ClassDef) -> bool:
    """Whether a dataset is split by rank: it computes with the rank and the number of ranks."""
    names = {getattr(node, "id", getattr(node, "attr", "")).lstrip("_") for node in ast.walk(owner)}
    splits = any(isinstance(node, ast.Mod) for node in ast.walk(owner)) or "islice" in names
    return splits and bool(names & _RANKS) and bool(names & _SIZES)
