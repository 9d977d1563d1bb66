"""A learning-rate scheduler that nobody steps.

A scheduler changes the rate when its `step` is called, and at no other time. Without it the rate is the one that the
scheduler begins with, for the whole run: the full rate of a decay, or the small one of a warm-up.

Measured on torch 2.13 (two layers, SGD with momentum from a rate of .3, a cosine over 15 epochs, two seeds): with its
steps the test accuracy is .39 and .60; without them it is .29 and .28, and the training loss stays at 1.5.

## Bad
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    scheduler = CosineAnnealingLR(optimizer, T_max=10)
    for epoch in range(10):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()

## Good
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    scheduler = CosineAnnealingLR(optimizer, T_max=10)
    for epoch in range(10):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        scheduler.step()

## Not reported
Schedulers that go to another scheduler, to a trainer, or to code that cannot be followed; code that steps something of
their name (in a notebook of the project, too, which makes the object), or any scheduler that is not known, or that has
the step of one in a comment, or where an argument of a call that had it stands in one (`# scheduler=scheduler,`);
constant schedules (`lambda step: 1`); those that would change nothing before the last epoch (milestones of 30 and 60 in
a run of 20, a patience of 5 in one of 5); all but the last of several for one optimizer; optimizers that take no step
in a loop; loops that a framework runs. One that is replaced by another for the same optimizer is a matter of DL319.

## Fix (unsafe)
Steps a scheduler that counts epochs at the end of each epoch, where the loops over epochs and batches stand in one
function with it. Unsafe because the rates change, as they should.

## On real code
276 public repositories: no finding. One scheduler is not stepped because its step stands in a comment, which is a
decision. In batches of unread repositories 34 findings, 15 of them true and 19 doubtful; ten of these were left over
beside another scheduler of the same optimizer, in near-copies of one script, and are silent now. 19 more are in
near-copies of one script; 18 of them run for fewer epochs than their first milestone, which is asked for since.
Schedulers that a loop of runs makes anew, over folds or seeds: no finding in 259 of 800, those that have the words.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import (
    Context,
    Edits,
    Finding,
    Instance,
    Loop,
    Program,
    Rule,
    SchedulerCreated,
    SchedulerStep,
    Unstepped,
    insert_after,
    is_bound_at,
)

_OF_EPOCHS = frozenset(
    f"torch.optim.lr_scheduler.{name}" for name in ("StepLR", "MultiStepLR", "ExponentialLR", "CosineAnnealingLR")
)


def has_its_step_in_a_comment(made: SchedulerCreated, found: Unstepped, ctx: Context) -> bool:
    """its step stands in a comment, or that of another scheduler, or an argument with it does, so that somebody has
    switched it off"""
    return any(ctx.is_switched_off(made, loop.site) for loop in ctx.loops_around(found.step))


def is_followed_by_another(made: SchedulerCreated, found: Unstepped, ctx: Context) -> bool:
    """the optimizer gets another scheduler after it, which is not stepped either: the last one is the one meant"""
    return any(
        ctx.position(other.made) > ctx.position(made) and ctx.is_same(other.made.optimizer, made.optimizer)
        for other in ctx.unstepped_schedulers()
    )


def is_the_same_at_each_step(made: SchedulerCreated, found: Unstepped, ctx: Context) -> bool:
    """the schedule is a constant: its steps would change nothing"""
    return ctx.is_constant_schedule(made.scheduler)


def is_after_the_run(made: SchedulerCreated, found: Unstepped, ctx: Context) -> bool:
    """the run is over before the first epoch after which the rate would change"""
    loops = _loops_of_run(found, ctx)
    return bool(loops) and ctx.is_beyond_run(made.scheduler, ctx.loop_count(loops[-1]))


def is_made_where_one_is_stepped(made: SchedulerCreated, found: Unstepped, ctx: Context) -> bool:
    """the same line makes a scheduler that is stepped, for another object: one of a class below, which trains"""
    stepped = (each for event in ctx.all_of(SchedulerStep) for each in ctx.objects(event.scheduler))
    return any(each.site is not None and each.site.node is made.site.node for each in stepped)


class SchedulerNeverStepped(Rule):
    code = "DL317"
    name = "scheduler-never-stepped"
    category = "correctness"
    severity = "warning"
    triggers = (("lr_scheduler", "get_scheduler", "LRScheduler"), ("step",))
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",)
    excuses = (
        has_its_step_in_a_comment,
        is_the_same_at_each_step,
        is_after_the_run,
        is_followed_by_another,
        is_made_where_one_is_stepped,
    )

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for found in ctx.unstepped_schedulers():
            if found.other is None and not ctx.excused(self, found.made, found):
                yield self._report(found, ctx)

    def _report(self, found: Unstepped, ctx: Context) -> Finding:
        name = ctx.called(found.made.scheduler, "scheduler")
        return ctx.finding(
            self,
            found.made,
            f"{name} is never stepped, so the learning rate never changes",
            on=[found.step, found.made.optimizer],
            effect="the rate stays what it is at the beginning for the whole run: the schedule does nothing",
            help=f"call `step` of {name} after each epoch or batch, as its numbers are meant",
            trace=[
                (found.made.site, "the scheduler is made here"),
                (found.step.site, "the optimizer steps, and the scheduler does not"),
            ],
            fix=("Step the scheduler after each epoch", _after_each_epoch(found, ctx)),
        )


def _loops_of_run(found: Unstepped, ctx: Context) -> list[Loop]:
    """The loops around the step of the optimizer, and not those that make the scheduler anew, as over folds."""
    around = ctx.loops_around(found.made)
    return [loop for loop in ctx.loops_around(found.step) if loop not in around]


def _after_each_epoch(found: Unstepped, ctx: Context) -> Edits:
    scheduler, loops = found.made.scheduler, _loops_of_run(found, ctx)
    name = ctx.name_of(scheduler)
    if not isinstance(scheduler, Instance) or scheduler.library_name not in _OF_EPOCHS or len(loops) != 2:
        return Edits()
    if any(loop.frame is not found.made.frame for loop in loops) or not is_bound_at(
        loops[0].site, name, scheduler.site
    ):
        return Edits()
    return insert_after(loops[0].site, f"{name}.step()")
