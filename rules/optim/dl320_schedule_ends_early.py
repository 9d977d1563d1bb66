"""A schedule whose rate is a millionth of what it was before half of the run is over.

Each drop of the rate multiplies it: six drops by ten leave a millionth of it. From there on the weights do not move any
more, and what is left of the run changes nothing. A schedule that falls to zero over the batches of one epoch
(`num_training_steps=len(loader)`) and steps after each batch of many leaves nothing for all the others.

Measured on torch 2.13 (two layers, 256 samples, SGD from a rate of .1, 100 epochs): with a drop by ten every second
epoch the training loss is 1.452765 after 12 epochs, and the same to the last digit after 100; with a drop every 40
epochs it falls to .114.

## Bad
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    scheduler = StepLR(optimizer, step_size=2, gamma=0.1)
    for epoch in range(100):
        train(model, loader, optimizer)
        scheduler.step()

## Good
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    scheduler = StepLR(optimizer, step_size=40, gamma=0.1)
    for epoch in range(100):
        train(model, loader, optimizer)
        scheduler.step()

## Not reported
Loops whose number of iterations is not known, or that end when something is reached (`break`, `return`); schedulers
that step in some iterations only; code that also sets rates by hand. Schedules that are meant in epochs and step after
each batch are a matter of DL304. Of schedules that fall to zero over one epoch: cosines, which rise again.

## On real code
276 public repositories: 1 finding, which is true: a tenth less every 10 of 3,000 epochs. Schedules that fall to zero
over one epoch: no finding in 523.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator

from dllint.api import Context, Finding, Instance, Items, Loop, Rule, SchedulerCreated, SchedulerStep, Symbol, Value

_TORCH = "torch.optim.lr_scheduler."
_MILLIONTH = 1e-6
_DECAY = 0.1  # of torch, where none is given
_TO_ZERO = {"get_linear_schedule_with_warmup": "num_training_steps", "PolynomialLR": "total_iters"}


# ------------------------------------------------------------------------------------------------- excuses


def is_stepped_in_some_iterations(event: SchedulerStep, scheduler: Instance, ctx: Context) -> bool:
    """a condition on the position in the loop decides when it steps, or it is told the epoch"""
    loops = ctx.loops_around(event)
    return bool(event.arguments.all()) or any(
        not guard.names.isdisjoint(loop.targets) for loop in loops for guard in event.guards
    )


def may_end_before(event: SchedulerStep, scheduler: Instance, ctx: Context) -> bool:
    """the loop ends when something is reached"""
    nodes = (node for loop in ctx.loops_around(event) for node in ast.walk(loop.site.node))
    return any(isinstance(node, ast.Break | ast.Return) for node in nodes)


def has_rates_set_by_hand(event: SchedulerStep, scheduler: Instance, ctx: Context) -> bool:
    """the code sets rates of parameter groups, or a framework runs the loop"""
    return any(True for _ in ctx.trees("param_groups")) or ctx.is_managed(event)


class ScheduleEndsEarly(Rule):
    code = "DL320"
    name = "schedule-ends-early"
    category = "suspicious"
    severity = "warning"
    triggers = (("StepLR", "MultiStepLR", "ExponentialLR", *_TO_ZERO), ("step",))
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.StepLR.html",)
    excuses = (is_stepped_in_some_iterations, may_end_before, has_rates_set_by_hand)

    def on_scheduler_step(self, event: SchedulerStep, ctx: Context) -> Iterator[Finding]:
        for scheduler in ctx.objects(event.scheduler):
            if not isinstance(scheduler, Instance):
                continue
            loops, end = _loops_of(scheduler, event, ctx), _end_of(scheduler, ctx)
            if _ends_with_first_epoch(scheduler, loops, ctx) and not ctx.excused(self, event, scheduler):
                yield self._of_one_epoch(event, scheduler, loops, ctx)
            if end is None:
                continue
            total = math.prod(_number(ctx.loop_count(loop), ctx) or 0 for loop in loops) if loops else 0
            if 2 * end <= total and not ctx.excused(self, event, scheduler):
                yield self._report(event, scheduler, end, int(total), ctx)

    def _report(self, event: SchedulerStep, scheduler: Instance, end: int, total: int, ctx: Context) -> Finding:
        site, loops = scheduler.site or event.site, _loops_of(scheduler, event, ctx)
        return ctx.finding(
            self,
            site,
            f"after {end} of {total} steps of the schedule the rate is a millionth of what it was",
            on=[event, *scheduler.arguments.all()[1:], *(ctx.loop_count(each) for each in loops)],
            effect="from there on the weights do not move, and the rest of the run is for nothing",
            help="let the rate fall less, or less often, for the length of the run",
            trace=[(site, "the schedule"), (loops[0].site, "this often it is stepped"), (event.site, "here")],
        )

    def _of_one_epoch(self, event: SchedulerStep, scheduler: Instance, loops: list[Loop], ctx: Context) -> Finding:
        site, epochs = scheduler.site or event.site, ctx.loop_count(loops[1])
        return ctx.finding(
            self,
            site,
            f"the schedule falls to zero over the batches of one epoch, and is stepped in {ctx.constant(epochs)}",
            on=[event, _steps_to_zero(scheduler, ctx), epochs],
            effect="from the second epoch on the rate is zero: the weights do not move, and the run is for nothing",
            help="let it last for the batches of all epochs: `len(loader) * epochs`",
            trace=[(site, "the schedule"), (loops[1].site, "so many epochs"), (event.site, "it is stepped here")],
        )


def _ends_with_first_epoch(scheduler: Instance, loops: list[Loop], ctx: Context) -> bool:
    """Whether a schedule falls to zero over the length of a loader, and steps for each batch of several epochs."""
    length = _steps_to_zero(scheduler, ctx)
    if not isinstance(length, Symbol) or length.name != "len" or not length.inputs:
        return False
    loaders = ctx.objects(length.inputs[0])
    if not loaders or any(ctx.guessed_role(each) != "loader" for each in loaders):
        return False
    if [ctx.loop_unit(loop) for loop in loops] != ["batches", "epochs"]:
        return False
    epochs = _number(ctx.loop_count(loops[1]), ctx)
    return epochs is not None and epochs > 1


def _steps_to_zero(scheduler: Instance, ctx: Context) -> Value | None:
    """After how many steps a scheduler leaves a rate of zero, if it is one that does."""
    key = _TO_ZERO.get(scheduler.library_name.rpartition(".")[2])  # not for a class of the project of such a name
    if key is None:
        return None
    return ctx.argument(scheduler, ctx.facts.signatures[scheduler.library_name].index(key), key)


def _loops_of(scheduler: Instance, event: SchedulerStep, ctx: Context) -> list[Loop]:
    """The loops around a step, but for those in each turn of which the scheduler is made anew: runs, folds.

    None where it is one of several that a loop makes, before another one steps each of them.
    """
    made = (each for each in ctx.all_of(SchedulerCreated) if each.scheduler is scheduler)
    around = {id(loop) for each in made for loop in ctx.loops_around(each)}
    stepping = ctx.loops_around(event)
    is_one_of_several = not around <= {id(loop) for loop in stepping}
    return [] if is_one_of_several else [loop for loop in stepping if id(loop) not in around]


def _number(value: Value | None, ctx: Context) -> float | None:
    number = ctx.constant(value)
    return number if isinstance(number, int | float) and not isinstance(number, bool) else None


def _end_of(scheduler: Instance, ctx: Context) -> int | None:
    """After how many steps a scheduler leaves a millionth of the rate, if its numbers are known."""
    kind, given = scheduler.library_name.removeprefix(_TORCH), scheduler.arguments
    at = 1 if kind == "ExponentialLR" else 2
    decay = _number(given.get(at, "gamma"), ctx) if given.get(at, "gamma") is not None else _DECAY
    if not given.exact or decay is None or not 0 < decay < 1:
        return None
    drops = math.ceil(math.log(_MILLIONTH) / math.log(decay) - 1e-9)
    if kind == "ExponentialLR":
        return drops
    if kind == "StepLR":
        width = _number(given.get(1, "step_size"), ctx)
        return int(width * drops) if width is not None else None
    marks = given.get(1, "milestones") if kind == "MultiStepLR" else None
    if not isinstance(marks, Items) or not marks.exact or len(marks.items) < drops:
        return None
    mark = _number(marks.items[drops - 1], ctx)
    return int(mark) if mark is not None else None
