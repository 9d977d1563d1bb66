"""A `DistributedSampler` that is never told which epoch it is.

The sampler shuffles with the seed `seed + epoch`, and the epoch is 0 until `set_epoch` is called. Without it every
epoch visits the data in the same order, in the same batches and on the same ranks.

Measured on torch 2.13: the order of two epochs is identical, also with persistent workers; with `set_epoch` it is not.
A `BatchSampler` around the sampler has no `set_epoch` of its own: the call must reach the sampler inside.

## Bad
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=64, sampler=sampler)
    for epoch in range(epochs):
        for x, y in loader:
            train_step(x, y)

## Good
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=64, sampler=sampler)
    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for x, y in loader:
            train_step(x, y)

## Not reported
Samplers with `shuffle=False` or whose `shuffle` is not known, loaders that are only evaluated on, loops of a single
epoch, samplers and loaders that go into a call that cannot be resolved, programs run by Lightning, Accelerate or
another framework that calls `set_epoch` itself, and programs with a `set_epoch` call that cannot be followed. Where
the number of epochs is an option whose default is 1, it is reported only when the rule is selected by name.

## Fix (unsafe)
Calls `set_epoch` at the start of the epoch, where the sampler and the epoch have names there. Unsafe because it
changes the order of the data, as it should.

## On real code
742 public repositories: 63 findings in 22 of them, all true.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from dllint.api import (
    Assumption,
    Backward,
    Context,
    Edit,
    EpochSet,
    Event,
    Finding,
    Instance,
    LibraryCall,
    LoaderCreated,
    Loop,
    OpaqueCall,
    Pass,
    Program,
    Rule,
    Site,
    Symbol,
    Value,
    alternatives,
    flatten,
    insert_before,
    offer,
    walk,
)

_SAMPLER = "torch.utils.data.DistributedSampler"
_FRAMEWORKS = r"(?m)^\s*(?:from|import)\s+(?:lightning|pytorch_lightning|accelerate|ignite|fastai|catalyst|composer)\b"


@dataclass(frozen=True)
class _Sampled:
    """A loader and the sampler in it that has to be told the epoch. ``given`` is what the loader was given."""

    event: LoaderCreated
    sampler: Instance
    given: Value


class MissingSetEpoch(Rule):
    code = "DL414"
    name = "missing-set-epoch"
    category = "correctness"
    severity = "warning"
    triggers = (
        ("sampler", "batch_sampler", "backward"),
        ("sampler", "batch_sampler"),
        ("DistributedSampler", "set_epoch"),
    )
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        found = [one for event in ctx.data.loaders for one in _sampled(event, ctx)]
        if not found or _is_managed(ctx):
            return
        for one in found:
            if _is_told(one, ctx):
                continue
            loop = _epoch_loop(one, ctx)
            if loop is not None:
                yield self._report(one, loop, ctx)
            elif _is_told_nowhere(one, ctx):
                yield self._report(one, None, ctx)

    def _report(self, one: _Sampled, loop: Loop | None, ctx: Context) -> Finding:
        name = ctx.name_of(one.sampler) or "the sampler"
        name = f"`{name}`" if name != "the sampler" else name
        place = one.sampler.site
        assert place is not None
        trace = [
            (place, "the order is made from the seed and the epoch"),
            (one.event.site, "this loader draws from the sampler"),
        ]
        if loop is not None:
            trace.append((loop.site, "no epoch is set in this loop"))
        edits = _told_in(loop, one, ctx) if loop is not None else ()
        return ctx.finding(
            self,
            place if loop is None or loop.site.module is place.module else loop.site,
            f"the epoch of {name} is never set" + (" in the loop over the epochs" if loop is not None else ""),
            effect="every epoch visits the same samples in the same order, in the same batches",
            help="call `set_epoch(epoch)` on the sampler at the start of each epoch",
            trace=trace,
            fixes=offer("Set the epoch", edits, "unsafe", of=place, at=place) if edits else [],
            assuming=[]
            if loop is not None
            else [Assumption("opaque", "whoever iterates the loader does not set the epoch")],
            pedantic=loop is not None and _has_one_epoch_by_default(loop, ctx),
        )


def _told_in(loop: Loop, one: _Sampled, ctx: Context) -> tuple[Edit, ...]:
    """``sampler.set_epoch(epoch)`` as the first statement of a loop, where both have names."""
    place, node = one.sampler.site, loop.site.node
    if place is None or not isinstance(node, ast.For) or not isinstance(node.target, ast.Name):
        return ()
    if loop.site.module is not place.module or ctx.scope(loop.site) != ctx.scope(place):
        return ()
    name = _variable(place)
    others = [option for option in ctx.objects(one.given) if option is not one.sampler]
    if not name or not all(ctx.is_none(option) for option in others):
        return ()
    call = f"{name}.set_epoch({node.target.id})"
    text = f"if {name} is not None:\n    {call}" if others else call
    return insert_before(Site(place.module, node.body[0]), text)


def _variable(place: Site) -> str:
    """The variable that what is made at a place is assigned to."""
    module = place.module
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            made = (node.value.body, node.value.orelse) if isinstance(node.value, ast.IfExp) else (node.value,)
            if any(value is place.node for value in made):
                return node.targets[0].id
    return ""


# ------------------------------------------------------------------------------------------------------- samplers


def _sampled(event: LoaderCreated, ctx: Context) -> Iterator[_Sampled]:
    for option in ("sampler", "batch_sampler"):
        given = event.options.get(option)
        for sampler in _samplers_in(given, ctx, 0):
            if given is not None and _needs_epoch(sampler, ctx):
                yield _Sampled(event, sampler, given)


def _samplers_in(value: Value | None, ctx: Context, depth: int) -> Iterator[Instance]:
    """The samplers a value may be, and those inside batch samplers."""
    for option in ctx.objects(value):
        if isinstance(option, Instance):
            yield option
            if ctx.role(option) == "sampler" and depth < 3:
                yield from _samplers_in(ctx.argument(option, 0, "sampler"), ctx, depth + 1)


def _needs_epoch(sampler: Instance, ctx: Context) -> bool:
    """Whether a sampler shuffles with a seed that changes only when it is told the epoch."""
    if sampler.library_name == _SAMPLER:
        return _shuffles(ctx.argument(sampler, 3, "shuffle"), ctx)
    if sampler.library_name:
        return False
    iterates, sets = ctx.member(sampler, "__iter__"), ctx.member(sampler, "set_epoch")
    if _SAMPLER in ctx.library_bases(sampler) and iterates is None and sets is None:
        return _shuffles(ctx.data.arguments(sampler).get("shuffle", sampler.attributes.get("shuffle")), ctx)
    if iterates is None or (sets is None and _SAMPLER not in ctx.library_bases(sampler)):
        return False
    shuffle = ctx.data.arguments(sampler).get("shuffle")
    return _reads_epoch(iterates.node) and _shuffles(shuffle, ctx)


def _shuffles(flag: Value | None, ctx: Context) -> bool:
    return flag is None or any(ctx.constant(option) is True for _, option in alternatives(flag))


def _reads_epoch(node: ast.AST) -> bool:
    """Whether a method uses ``self.epoch`` and leaves it as it is."""
    uses = [child for child in ast.walk(node) if isinstance(child, ast.Attribute) and child.attr.strip("_") == "epoch"]
    return bool(uses) and all(isinstance(use.ctx, ast.Load) for use in uses)


# ------------------------------------------------------------------------------------------------ is it told at all


def _is_managed(ctx: Context) -> bool:
    """Whether a framework may set the epoch."""
    for event in ctx.events:
        if isinstance(event, LibraryCall) and event.name in ctx.facts.frameworks:
            return True
        if event.frame.framework:
            return True
    return False


def _is_told(one: _Sampled, ctx: Context) -> bool:
    """Whether anything in the program may set the epoch of the sampler."""
    wrappers = _wrappers(one, ctx)
    told: set[ast.AST] = set()
    for event in ctx.events:
        if isinstance(event, EpochSet):
            told.add(event.site.node)
            if _may_be(event.target, one, ctx):
                return True
        elif isinstance(event, OpaqueCall) and event.site.node not in wrappers and _goes_into(event, one, ctx):
            return True
    return any(site.node not in told and not _is_own(site.node) for site in ctx.method_calls("set_epoch"))


def _is_own(call: ast.AST) -> bool:
    """Whether a call is ``self.set_epoch(...)``: what that does is in the method itself."""
    receiver = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    return isinstance(receiver, ast.Name) and receiver.id == "self"


def _wrappers(one: _Sampled, ctx: Context) -> set[ast.AST]:
    """Calls that make what the batches are taken from (progress bars, prefetchers): they do not know the epoch."""
    return {
        source.site.node
        for batches in ctx.data.passes
        if batches.trains and batches.loop.iterable is not None and any(one.event.loader is x for x in batches.loaders)
        for source in ctx.sources(batches.loop.iterable)
        if source.site is not None
    }


def _may_be(target: Value, one: _Sampled, ctx: Context) -> bool:
    if ctx.reaches(target, one.sampler):
        return True
    return all(isinstance(option, Symbol) for option in ctx.objects(target)) and not _leads_elsewhere(target, ctx)


def _leads_elsewhere(target: Value, ctx: Context) -> bool:
    """Whether an unresolved target certainly belongs to another loader or sampler of the program."""
    kinds = (ctx.role(source) for source in ctx.sources(target) if isinstance(source, Instance))
    return any(kind in ("loader", "sampler") for kind in kinds)


def _goes_into(event: OpaqueCall, one: _Sampled, ctx: Context) -> bool:
    """Whether code that is not the project's gets hold of the sampler or loader; calls in the project are all seen."""
    given = [value for argument in event.values for value in flatten(argument)]
    if any(ctx.member(value, event.name) is not None for value in given):
        return False
    objects = [value for value in given if isinstance(value, Instance) and value.library_name]
    held = [inner for value in objects for inner in value.arguments.all()]
    return any(value is one.sampler or value is one.event.loader for value in (*given, *held))


def _epoch_loop(one: _Sampled, ctx: Context) -> Loop | None:
    """The loop that trains on the loader again and again."""
    for batches in ctx.data.passes:
        if not batches.outer or not any(one.event.loader is loader for loader in batches.loaders):
            continue
        if not batches.trains and not _feeds_training(batches, one, ctx):
            continue
        loop = batches.outer[0]
        if not _is_made_in(loop, one) and not _has_one_epoch(loop, ctx):
            return loop
    return None


def _feeds_training(batches: Pass, one: _Sampled, ctx: Context) -> bool:
    """Whether a loop hands out batches without end (``while True: for batch in loader: yield batch``) to a training."""
    yields = any(isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(batches.loop.site.node))
    if not yields or batches.outer[0].kind != "while" or ctx.data.part_of_loader(one.event) == "eval":
        return False
    return bool(ctx.all_of(Backward))


def _is_made_in(loop: Loop, one: _Sampled) -> bool:
    return any(_makes(event, one) for event in walk(loop.body))


def _makes(event: Event, one: _Sampled) -> bool:
    return event is one.event or (isinstance(event, LibraryCall) and event.result is one.sampler)


def _has_one_epoch(loop: Loop, ctx: Context) -> bool:
    limits = _limits(loop)
    return not any(ctx.is_setting(limit) for limit in limits) and _count(limits, ctx) == 1


def _has_one_epoch_by_default(loop: Loop, ctx: Context) -> bool:
    return _count(_limits(loop), ctx) == 1


def _limits(loop: Loop) -> tuple[Value, ...]:
    counted = loop.iterable
    return counted.inputs if isinstance(counted, Symbol) and counted.name == "range" else ()


def _count(limits: tuple[Value, ...], ctx: Context) -> int | None:
    numbers = [ctx.constant(limit) for limit in limits]
    if not numbers or len(numbers) > 2 or not all(isinstance(number, int) for number in numbers):
        return None
    return int(numbers[-1]) - (int(numbers[0]) if len(numbers) == 2 else 0)


def _is_told_nowhere(one: _Sampled, ctx: Context) -> bool:
    """Whether a loader that is for training is never seen in a loop, and no file of the project sets any epoch."""
    if any(one.event.loader is loader for batches in ctx.data.passes for loader in batches.loaders):
        return False
    if any(call.name == "iter" and call.arguments.get(0, None) is one.event.loader for call in ctx.all_of(LibraryCall)):
        return False
    if ctx.data.part_of_loader(one.event) != "train":
        return False
    return not (
        ctx.project_mentions(r"\bset_epoch\b")
        or ctx.project_mentions(_FRAMEWORKS)
        or not ctx.project_mentions(r"\.backward\(")
    )
