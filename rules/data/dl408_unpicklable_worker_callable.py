"""A lambda or an inner function that has to be sent to worker processes which are spawned.

Where workers are spawned rather than forked, the loader pickles its dataset, its `collate_fn` and its `worker_init_fn`
for them. Functions are pickled by name, and a lambda or a function within a function has none that a worker can look
up. The first iteration fails.

Measured on torch 2.13 with a lambda as `collate_fn`: under `fork` nothing is wrong; under `spawn` and `forkserver`
`AttributeError: Can't pickle local object 'main.<locals>.<lambda>'` in the first of 4 batches.

## Bad
    loader = DataLoader(train_set, num_workers=4, multiprocessing_context="spawn", collate_fn=lambda batch: batch)
    for batch in loader:
        print(batch)

## Good
    def keep(batch):
        return batch

    loader = DataLoader(train_set, num_workers=4, multiprocessing_context="spawn", collate_fn=keep)
    for batch in loader:
        print(batch)

## Not reported
Loaders without workers, and those whose workers are forked (`multiprocessing_context="fork"`). Transforms that the
dataset applies and does not hold: a worker imports the module that has them. Where a project does not
say how processes are started, which is forking under Linux before Python 3.14 and spawning elsewhere, it is a note that
only those see who select this rule.

## On real code
276 public repositories, of which 4 spawn processes and have loaders: no finding. Where the rule is selected, 21 notes
in 16 of them, which were not read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Context, Finding, Function, Instance, LoaderCreated, Rule, Site, Value, Workers, alternatives

_SENT = ("collate_fn", "worker_init_fn")
_NEW = ("spawn", "forkserver")

# ------------------------------------------------------------------------------------------------- excuses


def is_forked(event: LoaderCreated, function: Site, ctx: Context) -> bool:
    """the workers are forked"""
    return ctx.data.start_method(event) == "fork"


class UnpicklableWorkerCallable(Rule):
    code = "DL408"
    name = "unpicklable-worker-callable"
    category = "correctness"
    severity = "warning"
    default = False
    preview = True
    triggers = (("DataLoader",), ("num_workers",), ("collate_fn", "worker_init_fn", "Lambda", "lambda"))
    references = ("https://docs.pytorch.org/docs/stable/data.html#platform-specific-behaviors",)
    excuses = (is_forked,)

    def on_loader_created(self, event: LoaderCreated, ctx: Context) -> Iterator[Finding]:
        workers = ctx.data.workers(event)
        if workers is None or not ctx.data.is_read(event.loader):
            return
        for what, given in _sent(event, ctx):
            place = _without_name(given, ctx)
            if place is not None and not ctx.excused(self, event, place):
                yield self._report(event, what, given, place, workers, ctx)
                return

    def _report(
        self, event: LoaderCreated, what: str, given: Value, place: Site, workers: Workers, ctx: Context
    ) -> Finding:
        passes = [one for one in ctx.data.passes if any(each is event.loader for each in one.loaders)]
        context = event.options.get("multiprocessing_context")
        is_spawned = ctx.data.start_method(event) in _NEW  # if not, the claim is about the function, whoever sends it
        return ctx.finding(
            self,
            place,
            f"{what} has no name that the workers can look it up by"
            if is_spawned
            else f"{what} has no name: where workers are spawned, they cannot get it",
            on=[event, workers, workers.value, context, given, *(one.loop for one in passes)]
            if is_spawned
            else [given],
            assuming=ctx.assumed_batches(event.loader),
            effect="the first iteration over the loader fails, as it cannot be pickled"
            if is_spawned
            else "under Windows, macOS and Python 3.14 the first iteration over the loader fails",
            help="write it as a function at the top of the file, with `functools.partial` for what it needs",
            severity=None if is_spawned else "info",
            pedantic=not is_spawned,
            trace=[(event.site, "the workers of this loader are started"), (place, "and are sent this")],
        )


def _sent(event: LoaderCreated, ctx: Context) -> Iterator[tuple[str, Value]]:
    """The functions that a loader sends to its workers, each with what it is.

    A transform that the dataset applies and does not hold is a variable of a module, which each worker imports.
    """
    for name in _SENT:
        for _, given in alternatives(event.options[name]) if name in event.options else ():
            yield f"the `{name}`", given
    for dataset in ctx.data.datasets(event.dataset):
        for step in (inner for each in ctx.data.applied(dataset) for inner in ctx.data.steps(each.value)):
            is_held = step.kind == "Lambda" and ctx.reaches(dataset, step.value)
            if is_held and isinstance(step.value, Instance):
                function = step.value.arguments.get(0, "lambd")
                yield from [("the function of `Lambda`", function)] if function is not None else []
        held = ctx.data.arguments(dataset) if dataset.library_name else dataset.attributes
        for name, value in held.items():
            for _, option in alternatives(value):
                yield f"`{name}` of the dataset", option


def _without_name(given: Value, ctx: Context) -> Site | None:
    """Where a lambda, or a function within a function, is written."""
    if not isinstance(given, Function) or given.site is None:
        return None
    node = given.node
    is_inner = isinstance(node, ast.Lambda) or any(ctx.ancestors(given.site, ast.FunctionDef, ast.AsyncFunctionDef))
    is_method = any(isinstance(each, ast.ClassDef) for each in list(ctx.ancestors(given.site, ast.ClassDef))[:1])
    return Site(given.site.module, node) if is_inner and (isinstance(node, ast.Lambda) or not is_method) else None
