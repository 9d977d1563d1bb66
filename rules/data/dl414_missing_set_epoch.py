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
another framework that calls `set_epoch` itself, programs with a `set_epoch` call that cannot be followed or stands in
any loop, and those that start no group of processes, where others of the project do: no such sampler is made there.
Where the number of epochs is an option whose default is 1, it is reported only when the rule is selected by name.

## Fix (unsafe)
Calls `set_epoch` at the start of the epoch, where the sampler and the epoch have names there. Unsafe because it
changes the order of the data, as it should.

## On real code
742 public repositories: 63 findings in 22 of them, all true. In 322 others 6: 4 true, 1 false (nothing is trained in
the loop, which is silent since) and 1 doubtful.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from dllint.api import (
    Assumption,
    Backward,
    Context,
    Edits,
    EpochSet,
    Event,
    Finding,
    Instance,
    LibraryCall,
    LoaderCreated,
    Loop,
    OpaqueCall,
    OptimizerStep,
    Pass,
    Program,
    Rule,
    Site,
    Symbol,
    Value,
    alternatives,
    flatten,
    insert_before,
    receiver_of,
    walk,
)

_SAMPLER = "torch.utils.data.DistributedSampler"
_FRAMEWORKS = ("lightning", "pytorch_lightning", "accelerate", "ignite", "fastai", "catalyst", "composer")


_EFFECT = "every epoch visits the same samples in the same order, in the same batches"
_HELP = "call `set_epoch(epoch)` on the sampler at the start of each epoch"


@dataclass(frozen=True)
class _Sampled:
    """A loader and the sampler in it that has to be told the epoch. ``given`` is what the loader was given."""

    event: LoaderCreated
    sampler: Instance
    given: Value


def set_by_a_framework(place: Site, one: _Sampled, ctx: Context) -> bool:
    """a framework takes part in the program, and may set the epoch"""
    return any(
        event.frame.framework or (isinstance(event, LibraryCall) and event.name in ctx.facts.frameworks)
        for event in ctx.events
    )


def set_by_a_call(place: Site, one: _Sampled, ctx: Context) -> bool:
    """`set_epoch` is called on what may be the sampler, and not just once, before a loop over the epochs"""
    calls = [event for event in ctx.all_of(EpochSet) if _may_be(event.target, one, ctx)]
    loop = _epoch_loop(one, ctx) if calls else None
    if any(loop is None or ctx.loops_around(event) for event in calls):
        return True
    followed = {event.site.node for event in ctx.all_of(EpochSet)}
    others = (site.node for site in ctx.method_calls("set_epoch") if receiver_of(site.node) != "self")
    return any(node not in followed for node in others)  # what ``self.set_epoch`` does is in the method itself


def set_out_of_sight(place: Site, one: _Sampled, ctx: Context) -> bool:
    """the sampler or the loader goes into a call that cannot be followed"""
    wrappers = _wrappers(one, ctx)
    return any(e.site.node not in wrappers and _goes_into(e, one, ctx) for e in ctx.all_of(OpaqueCall))


def made_in_other_programs(place: Site, one: _Sampled, ctx: Context) -> bool:
    """the sampler needs a group of processes, which other programs of the project start, and this one does not"""
    if one.sampler.library_name != _SAMPLER:
        return False
    given = [ctx.argument(one.sampler, 1, "num_replicas"), ctx.argument(one.sampler, 2, "rank")]
    is_asked = any(each is None or ctx.is_none(each) or _is_of_group(each) for each in given)
    return is_asked and ctx.starts_no_processes()


def _is_of_group(value: Value) -> bool:
    """Whether a number is asked of the group of processes."""
    return isinstance(value, Symbol) and value.name.startswith("torch.distributed.")


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

    excuses = (set_by_a_framework, set_by_a_call, set_out_of_sight, made_in_other_programs)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for event in ctx.data.loaders:
            for one in _sampled(event, ctx):
                place = one.sampler.site
                if place is None or ctx.excused(self, place, one):
                    continue
                loop = _epoch_loop(one, ctx)
                if loop is not None:
                    yield self._report_loop(one, place, loop, ctx)
                elif _is_told_nowhere(one, ctx):
                    yield self._report_alone(one, place, ctx)

    def _report_loop(self, one: _Sampled, place: Site, loop: Loop, ctx: Context) -> Finding:
        calls = [event for event in ctx.all_of(EpochSet) if _may_be(event.target, one, ctx)]
        once = [(event.site, "an epoch is set here, once") for event in calls[:1]]
        return ctx.finding(
            self,
            place if loop.site.module is place.module else loop.site,
            f"the epoch of {ctx.called(one.sampler, 'sampler')} is never set in the loop over the epochs",
            on=[one.event, loop, *_given_to_sampler(one, ctx)],
            effect=_EFFECT,
            help=_HELP,
            trace=[*_trace_of_order(one, place), *once, (loop.site, "no epoch is set in this loop")],
            fix=("Set the epoch", _told_in(loop, one, place, ctx)),
            pedantic=_count(_limits(loop), ctx) == 1,
        )

    def _report_alone(self, one: _Sampled, place: Site, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            place,
            f"the epoch of {ctx.called(one.sampler, 'sampler')} is never set",
            on=[one.event, *_given_to_sampler(one, ctx)],
            assuming=[Assumption("opaque", "whoever iterates over the loader does not set the epoch")],
            effect=_EFFECT,
            help=_HELP,
            trace=_trace_of_order(one, place),
        )


def _given_to_sampler(one: _Sampled, ctx: Context) -> tuple[Value, ...]:
    """What must be as it is known to be: the loader, its sampler, and that this shuffles."""
    flag = ctx.data.arguments(one.sampler).get("shuffle")
    return (one.event.loader, one.sampler, one.given, *([flag] if flag is not None else ()))


def _trace_of_order(one: _Sampled, place: Site) -> list[tuple[Site, str]]:
    return [
        (place, "the order is made from the seed and the epoch"),
        (one.event.site, "this loader draws from the sampler"),
    ]


def _told_in(loop: Loop, one: _Sampled, place: Site, ctx: Context) -> Edits:
    """``sampler.set_epoch(epoch)`` as the first statement of a loop, where both have names."""
    node = loop.site.node
    if not isinstance(node, ast.For) or not isinstance(node.target, ast.Name) or loop.site.module is not place.module:
        return Edits()
    name = _variable(place, ctx) if ctx.scope(loop.site) == ctx.scope(place) else ""
    others = [option for option in ctx.objects(one.given) if option is not one.sampler]
    if not name or not all(ctx.is_none(option) for option in others):
        return Edits()
    call = f"{name}.set_epoch({node.target.id})"
    text = f"if {name} is not None:\n    {call}" if others else call
    return insert_before(Site(place.module, node.body[0]), text)


def _variable(place: Site, ctx: Context) -> str:
    """The variable that what is made at a place is assigned to, in one arm of an expression or as all of it."""
    statement = next(ctx.ancestors(place, ast.stmt), None)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return ""
    value, target = statement.value, statement.targets[0]
    made = (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)
    return target.id if isinstance(target, ast.Name) and any(each is place.node for each in made) else ""


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
        is_trained = batches.trains and bool(ctx.all_of(OptimizerStep))  # gradients alone may be looked at
        if not is_trained and not _feeds_training(batches, one, ctx):
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
    if ctx.mentions("set_epoch") or not ctx.mentions("backward"):
        return False
    return not ctx.imports(*_FRAMEWORKS, where="everywhere")
