"""A loader without a `DistributedSampler`, whose batches train a model under `DistributedDataParallel`.

Each rank is a process of its own, and its loader goes through all of the data. Without a sampler that gives each rank
its share, an epoch on 8 ranks takes as long as on one. If the ranks are seeded alike, as they should be, or do not
shuffle, all of them have the same batch at the same time, and 7 of 8 devices work for nothing.

Measured on torch 2.13 (4 processes on the CPU, 64 samples, batches of 8): with a sampler an epoch has 2 steps and the
ranks see 16 samples each; without one it has 8 steps, and each rank sees all 64. With one seed the weights after the
epoch are those of a single process, to the last bit.

## Bad
    net = DDP(model)
    loader = DataLoader(dataset, batch_size=64, shuffle=True)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Good
    net = DDP(model)
    loader = DataLoader(dataset, batch_size=64, sampler=DistributedSampler(dataset))
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Not reported
Loaders with any sampler, be it in one arm of a condition only; datasets that are iterated over, or that know the rank;
loaders that are only evaluated on; datasets that draw at random, whatever index they are asked for; loops that a
framework runs, and loaders that go through `prepare`; a group of one process (`world_size=1`).

## Fix (unsafe)
Gives the loader a `DistributedSampler`, which also shuffles. Unsafe because each rank then sees other samples, as it
should. The sampler has to be told the epoch as well, which is what DL414 asks for.

## On real code
276 public repositories: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from dllint.api import (
    Class,
    Const,
    Context,
    Edits,
    Event,
    Finding,
    Guards,
    Instance,
    LoaderCreated,
    Loop,
    ModelChanged,
    ModelForward,
    Program,
    Rule,
    Site,
    Value,
    alternatives,
    assumed_under,
    set_argument,
    spelling_of,
    together,
)

_WRAPPER = "torch.nn.parallel.DistributedDataParallel"
_STARTS_GROUP = "torch.distributed.init_process_group"
_SIZES = frozenset(("batch_size", "num_workers"))
_KNOWS_RANKS = r"\brank\b|get_rank|world_size|num_replicas"


# ------------------------------------------------------------------------------------------------- excuses


def is_sampled(event: LoaderCreated, wrapped: ModelChanged, ctx: Context) -> bool:
    """a sampler gives each rank its share, or may do so, here or in another arm of the same function"""
    beside = [each for each in ctx.data.loaders if each.frame.definition == event.frame.definition]
    given = [each.options[name] for each in beside for name in ("sampler", "batch_sampler") if name in each.options]
    return any(not isinstance(each, Const) for each in given)


def is_shared_out(event: LoaderCreated, wrapped: ModelChanged, ctx: Context) -> bool:
    """the dataset, or what it is made from, speaks of ranks"""
    datasets = ctx.data.datasets(event.dataset)
    if any(isinstance(each.cls, Class) and ctx.is_said_in(each.cls, _KNOWS_RANKS) for each in datasets):
        return True
    given = [value for each in datasets for value in each.arguments.all()]
    names = [name for value in given for name in ctx.names_behind(value)]
    return ctx.speaks_of("rank", *names, *_lines_without_sizes(event.site, ctx))


def draws_for_itself(event: LoaderCreated, wrapped: ModelChanged, ctx: Context) -> bool:
    """the dataset takes no notice of the index that a sampler would give it: it draws at random"""
    datasets = ctx.data.datasets(event.dataset)
    return bool(datasets) and all(isinstance(each.cls, Class) and _ignores_index(each.cls) for each in datasets)


def _ignores_index(dataset: Class) -> bool:
    """Whether the `__getitem__` that a class defines never reads what it is asked for."""
    methods = [each for each in dataset.node.body if isinstance(each, ast.FunctionDef) and each.name == "__getitem__"]
    if not methods or len(methods[0].args.args) != 2:
        return False
    index = methods[0].args.args[1].arg
    return not any(isinstance(each, ast.Name) and each.id == index for each in ast.walk(methods[0]))


def is_prepared_by_a_library(event: LoaderCreated, wrapped: ModelChanged, ctx: Context) -> bool:
    """a library gets the loader, and may give each rank its share"""
    return ctx.is_prepared(event.loader) or ctx.imports("accelerate", "lightning", "pytorch_lightning", "ignite")


def is_one_process(event: LoaderCreated, wrapped: ModelChanged, ctx: Context) -> bool:
    """the group has one process: `init_process_group(world_size=1)`"""
    sizes = [call.arguments.keywords.get("world_size") for call in ctx.library_calls(_STARTS_GROUP)]
    return bool(sizes) and all(size is not None and ctx.constant(size) == 1 for size in sizes)


@dataclass(frozen=True)
class _Training:
    """An event by which a model is trained, what says so, and the conditions under which it does."""

    event: Event
    evidence: tuple[Event | Value, ...]
    guards: Guards


class MissingDistributedSampler(Rule):
    code = "DL805"
    name = "missing-distributed-sampler"
    category = "correctness"
    severity = "warning"
    triggers = (("DistributedDataParallel",), ("DataLoader",), ("backward",))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler",)
    excuses = (is_sampled, is_shared_out, is_prepared_by_a_library, is_one_process, draws_for_itself)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        wrappings = [
            each for each in ctx.all_of(ModelChanged) if isinstance(each, ModelChanged) and each.action == _WRAPPER
        ]
        for event in ctx.data.loaders if wrappings else ():
            datasets = ctx.data.datasets(event.dataset)
            if (
                not datasets
                or not all(map(ctx.data.is_map_style, datasets))
                or not ctx.data.is_trained_on(event.loader)
            ):
                continue
            for wrapped in wrappings:
                trainings = _trainings_with(event, wrapped, ctx)
                if trainings and not ctx.excused(self, event, wrapped):
                    for (
                        training
                    ) in trainings:  # by each of several optimizers that it may be: by all of them is no doubt
                        yield self._report(event, datasets[0], wrapped, training, ctx)
                    break

    def _report(
        self, event: LoaderCreated, dataset: Instance, wrapped: ModelChanged, training: _Training, ctx: Context
    ) -> Finding:
        return ctx.finding(
            self,
            event,
            f"{ctx.called(event.loader, 'loader')} has no `DistributedSampler`: each rank goes through all of the data",
            on=[wrapped.guards, *training.evidence, dataset, event.options.get("shuffle")],
            assuming=assumed_under(training.guards),
            effect="an epoch takes as long as on one device, and ranks with one seed have the same batches",
            help="pass `sampler=DistributedSampler(dataset)` instead of `shuffle=True`",
            trace=[
                (wrapped.site, "each rank has a copy of the model"),
                (event.site, "and a loader of its own, over all of the data"),
                (training.event.site, "whose batches it is trained on"),
            ],
            fix=("Give each rank its share of the data", _with_sampler(event, ctx)),
        )


def _lines_without_sizes(site: Site, ctx: Context) -> list[str]:
    """The lines in which a loader is made, without the numbers of samples and workers: these share out no data."""
    keywords = site.node.keywords if isinstance(site.node, ast.Call) else []
    sizes = [ctx.source_of(Site(site.module, each)) for each in keywords if each.arg in _SIZES]
    lines = "\n".join(ctx.lines_at(site))
    for size in sizes:
        lines = lines.replace(size, "")
    return lines.split("\n")


def _trainings_with(event: LoaderCreated, wrapped: ModelChanged, ctx: Context) -> list[_Training]:
    """How the wrapped model is trained with batches of a loader.

    An optimizer that has it, and steps in the loop over the loader, says so without the way through the loss.
    """
    loops = [each.loop for each in ctx.data.passes if each.trains and any(one is event.loader for one in each.loaders)]
    by_steps = []
    for step in ctx.steps_for(wrapped.result):
        inside = [loop for loop in loops if loop in ctx.loops_around(step)]
        if (
            inside
            and not _is_called_bare(wrapped, inside, ctx)
            and not ctx.exclusive(wrapped, step)
            and not ctx.is_managed(step)
        ):
            by_steps.append(_Training(step, (step,), ()))
    if by_steps:
        return by_steps
    for training in ctx.trained_through(wrapped.result):
        is_of_loader = any(source is event.loader for source in ctx.sources(training.call))
        if is_of_loader and not ctx.is_managed(training.backward):
            return [_Training(training.backward, (training.backward, training.model), training.guards)]
    return []


def _is_called_bare(wrapped: ModelChanged, loops: list[Loop], ctx: Context) -> bool:
    """Whether some loops call the model without its wrapper."""
    calls = [event for event in ctx.all_of(ModelForward) if set(loops) & set(ctx.loops_around(event))]
    called = [[id(option) for _, option in alternatives(event.model)] for event in calls]
    bare = {id(option) for _, option in alternatives(wrapped.model)}
    return any(id(wrapped.result) not in options and bare & set(options) for options in called)


def _with_sampler(event: LoaderCreated, ctx: Context) -> Edits:
    call, sampler_class = event.site.node, spelling_of("torch.utils.data.DistributedSampler", event.site)
    if not isinstance(call, ast.Call) or not call.args or not isinstance(call.args[0], ast.Name):
        return Edits()
    if not sampler_class and isinstance(call.func, ast.Attribute):
        sampler_class = f"{ast.unparse(call.func.value)}.DistributedSampler"
    if not sampler_class:
        return Edits()
    sampler = set_argument(event.site, "sampler", f"{sampler_class}({call.args[0].id})")
    if "shuffle" not in event.options:
        return sampler
    return together(sampler, set_argument(event.site, "shuffle", "False"))
