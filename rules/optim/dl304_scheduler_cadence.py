"""A learning-rate schedule that is sized in epochs and stepped per batch, or the other way round.

`CosineAnnealingLR(T_max=epochs)` stepped per batch goes up and down hundreds of times; `OneCycleLR(total_steps=…)`
stepped per epoch never leaves its first percent.

Measured on torch 2.13: a cosine over 10 epochs stepped per batch has a period of 20 batches; `StepLR(30)` per batch
leaves 1/1000 of the rate after one epoch of 100 batches; `OneCycleLR` over 1,000 steps stepped 10 times goes from .0400
to .0421 and never approaches its maximum; a cosine sized in 100 steps and stepped 10 times ends at .976.

## Bad
    scheduler = CosineAnnealingLR(optimizer, T_max=epochs)
    for epoch in range(epochs):
        for x, y in loader:
            train_step(x, y)
            scheduler.step()

## Good
    scheduler = CosineAnnealingLR(optimizer, T_max=epochs)
    for epoch in range(epochs):
        for x, y in loader:
            train_step(x, y)
        scheduler.step()

## Not reported
Schedules whose horizon cannot be related to the loops, steps with an epoch argument (`step(epoch + i / n)`), steps that
are conditional on the position in the epoch, warm restarts, and schedulers that Accelerate has prepared.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import (
    Backward,
    Const,
    Context,
    Finding,
    Instance,
    Items,
    Loop,
    Program,
    Rule,
    SchedulerStep,
    Setting,
    Site,
    Symbol,
    Value,
    alternatives,
    walk,
)

_HORIZONS = {
    "CosineAnnealingLR": ("T_max",),
    "OneCycleLR": ("total_steps", "steps_per_epoch"),
    "PolynomialLR": ("total_iters",),
    "LinearLR": ("total_iters",),
    "StepLR": ("step_size",),
    "MultiStepLR": ("milestones",),
}
_FRACTIONS = frozenset(("StepLR", "MultiStepLR"))  # their horizon is a part of the run, not all of it


class SchedulerCadence(Rule):
    code = "DL304"
    name = "scheduler-cadence"
    category = "correctness"
    severity = "error"
    triggers = (("step",), tuple(_HORIZONS))
    confirmable = True
    references = ("https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for event in ctx.events:
            if not isinstance(event, SchedulerStep) or event.arguments.positional or ctx.is_managed(event):
                continue
            for scheduler in ctx.objects(event.scheduler):
                if isinstance(scheduler, Instance):
                    finding = self._judge(event, scheduler, ctx)
                    if finding is not None:
                        yield finding
                        break

    def _judge(self, event: SchedulerStep, scheduler: Instance, ctx: Context) -> Finding | None:
        name = scheduler.library_name.rpartition(".")[2]
        loops = ctx.loops_around(event)
        if name not in _HORIZONS or not loops or self._is_prepared(scheduler, ctx):
            return None
        if any(not guard.names.isdisjoint(loop.targets) for loop in loops for guard in event.guards):
            return None
        per_batch = self._batch_loop(loops, ctx)
        horizon = next((found for key in _HORIZONS[name] if (found := self._option(scheduler, key, ctx)) is not None), None)
        if horizon is None:
            return None
        if per_batch is not None and len(loops) > 1:
            epochs = self._count(loops[loops.index(per_batch) + 1]) if per_batch is not loops[-1] else None
            if epochs is not None and self._counts_epochs(horizon, epochs, name, ctx):
                return self._report(event, scheduler, "epochs", "batch", per_batch.site, ctx)
        if per_batch is None and self._counts_batches(horizon, scheduler, ctx) and self._is_epoch_loop(loops[0], ctx):
            return self._report(event, scheduler, "batches", "epoch", loops[0].site, ctx)
        return None

    def _is_prepared(self, scheduler: Instance, ctx: Context) -> bool:
        return bool(ctx.library_calls("accelerate.Accelerator"))

    def _option(self, scheduler: Instance, key: str, ctx: Context) -> Value | None:
        signature = ctx.facts.signatures[scheduler.library_name]
        given = scheduler.arguments.get(signature.index(key), key)
        return None if given is None or (isinstance(given, Const) and given.value is None) else given

    def _batch_loop(self, loops: tuple[Loop, ...], ctx: Context) -> Loop | None:
        """The innermost loop, if it goes over batches: it goes backward each time, and over data, not over a number."""
        innermost = loops[0]
        if not any(isinstance(event, Backward) and ctx.loops_around(event)[:1] == (innermost,) for event in walk(innermost.body)):
            return None
        return innermost if ctx.goes_over_data(innermost) else None

    def _is_epoch_loop(self, loop: Loop, ctx: Context) -> bool:
        """Whether a loop contains the loop over the batches."""
        return any(
            isinstance(event, Backward) and ctx.loops_around(event)[:1] != (loop,) and ctx.goes_over_data(ctx.loops_around(event)[0])
            for event in walk(loop.body)
        )

    def _count(self, loop: Loop) -> Value | None:
        """The number of iterations of ``for … in range(…)``."""
        value = loop.iterable
        for _ in range(3):
            if isinstance(value, Symbol) and value.name != "range" and value.inputs:
                value = value.inputs[0]
        if not isinstance(value, Symbol) or value.name != "range" or not value.inputs:
            return None
        if len(value.inputs) == 1:
            return value.inputs[0]
        start, end = value.inputs[:2]
        if isinstance(end, Symbol) and end.name == "+":  # range(start, start + n)
            return next((side for side in end.inputs if side is not start), end)
        return end

    def _counts_epochs(self, horizon: Value, epochs: Value, name: str, ctx: Context) -> bool:
        """Whether a horizon is the number of epochs, or (for milestones) lies within it."""
        if horizon is epochs or (isinstance(horizon, Setting) and isinstance(epochs, Setting) and horizon.name == epochs.name):
            return True
        number = ctx.constant(epochs)
        if not isinstance(number, int) or number < 5:
            return False
        if name in _FRACTIONS:
            marks = [ctx.constant(mark) for mark in (horizon.items if isinstance(horizon, Items) else (horizon,))]
            known = [mark for mark in marks if isinstance(mark, int)]
            return bool(known) and len(known) == len(marks) and max(known) <= number
        return bool(ctx.constant(horizon) == number)

    def _counts_batches(self, horizon: Value, scheduler: Instance, ctx: Context) -> bool:
        """Whether a horizon is computed from the length of a loader."""
        if self._option(scheduler, "steps_per_epoch", ctx) is not None if "OneCycleLR" in scheduler.library_name else False:
            return True
        for _, option in alternatives(horizon):
            for source in ctx.sources(option):
                if isinstance(source, Symbol) and source.name == "len" and source.inputs:
                    if ctx.guessed_role(source.inputs[0]) == "loader":
                        return True
        return False

    def _report(
        self, event: SchedulerStep, scheduler: Instance, unit: str, cadence: str, loop: Site, ctx: Context
    ) -> Finding:
        name = ctx.name_of(scheduler) or "the scheduler"
        cls = scheduler.library_name.rpartition(".")[2]
        made = [(scheduler.site, f"the schedule is sized in {unit}")] if scheduler.site is not None else []
        return ctx.finding(
            self,
            event.site,
            f"`{cls}` is sized in {unit} but stepped once per {cadence}",
            effect="the schedule is over within the first epoch and starts anew or stays at its end"
            if cadence == "batch"
            else "only the first percent of the schedule is ever used",
            help=f"step `{name}` once per {unit.removesuffix('s').replace('batche', 'batch')}, or size it in {cadence}s",
            trace=[*made, (loop, f"this loop runs once per {cadence}"), (event.site, "and steps it here")],
        )
