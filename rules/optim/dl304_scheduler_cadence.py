"""A learning-rate schedule that is sized in epochs and stepped per batch, or the other way round.

`CosineAnnealingLR(T_max=epochs)` stepped per batch goes up and down hundreds of times; `OneCycleLR(total_steps=…)`
stepped per epoch never leaves its first percent.

Measured on torch 2.13: a cosine over 10 epochs stepped per batch has a period of 20 batches; `StepLR(30)` per batch
leaves 1/1000 of the rate after one epoch of 100 batches, `ExponentialLR(0.95)` 1/170; `OneCycleLR` over 1,000 steps
stepped 10 times goes from .0400 to .0421 and never approaches its maximum; a cosine sized in 100 steps and stepped 10
times ends at .976. Lightning steps a scheduler once per epoch unless it is told `"interval": "step"`: a `OneCycleLR`
then goes over .004, .010 and .027, where its peak is .097.

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
are conditional on the position in the epoch, warm restarts, steps that are meant to be small (`StepLR` with a `gamma`
above 0.9), schedulers that Accelerate has prepared, and those that Lightning is told an interval for.

## Fix (suggestion)
Moves the step out of the loop over the batches, or into it, where both loops stand in one function.

## On real code
742 public repositories: 4 findings in 1 of them, all true: schedules sized in batches that Lightning steps once an
epoch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import pairwise

from dllint.api import (
    Backward,
    Const,
    Context,
    Event,
    Finding,
    Fix,
    Frame,
    Instance,
    Items,
    Loop,
    OptimizerStep,
    Program,
    Rule,
    SchedulerCreated,
    SchedulerStep,
    Setting,
    Site,
    Symbol,
    Value,
    alternatives,
    move_after,
    offer,
    walk,
)

_HORIZONS = {
    "CosineAnnealingLR": ("T_max",),
    "OneCycleLR": ("total_steps", "steps_per_epoch"),
    "PolynomialLR": ("total_iters",),
    "LinearLR": ("total_iters",),
    "StepLR": ("step_size",),
    "MultiStepLR": ("milestones",),
    "get_linear_schedule_with_warmup": ("num_training_steps",),
    "get_cosine_schedule_with_warmup": ("num_training_steps",),
    "get_polynomial_decay_schedule_with_warmup": ("num_training_steps",),
}
_FRACTIONS = frozenset(("StepLR", "MultiStepLR"))  # their horizon is a part of the run, not all of it
_STEEP = 0.95  # for each batch: 100 leave 1/170 of the rate
_FEW_BATCHES = 100
_TOO_SELDOM = "only the first percent of the schedule is ever used"
_FEW_EPOCHS = 5  # a constant below could be anything


class SchedulerCadence(Rule):
    code = "DL304"
    name = "scheduler-cadence"
    category = "correctness"
    severity = "error"
    triggers = (("step", "configure_optimizers"), (*_HORIZONS, "ExponentialLR"))
    confirmable = True
    fix_safety = "suggestion"
    references = ("https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",)

    def on_scheduler_created(self, event: SchedulerCreated, ctx: Context) -> Iterator[Finding]:
        """A schedule that Lightning steps by itself."""
        scheduler, frame = event.scheduler, event.frame
        if frame.function != "configure_optimizers" or not ctx.is_managed(event) or not isinstance(scheduler, Instance):
            return
        horizon = _horizon(scheduler, ctx)
        if horizon is None or not _is_in_batches(horizon, scheduler, ctx) or not _is_left_to_epochs(frame, ctx):
            return
        yield ctx.finding(
            self,
            event,
            f"`{_class_of(scheduler)}` is sized in batches, but Lightning steps it once per epoch",
            effect=_TOO_SELDOM,
            help='return it as `{"scheduler": …, "interval": "step"}`',
        )

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for event in ctx.events:
            if not isinstance(event, SchedulerStep) or event.arguments.positional or ctx.is_managed(event):
                continue
            for scheduler in ctx.objects(event.scheduler):
                if not isinstance(scheduler, Instance) or ctx.is_prepared(scheduler):
                    continue
                finding = self._judge(event, scheduler, ctx)
                if finding is not None:
                    yield finding
                    break

    def _judge(self, event: SchedulerStep, scheduler: Instance, ctx: Context) -> Finding | None:
        loops = ctx.loops_around(event)
        horizon = _horizon(scheduler, ctx)
        if not loops or _is_meant_to_be_small(scheduler, ctx):
            return None
        if any(not guard.names.isdisjoint(loop.targets) for loop in loops for guard in event.guards):
            return None
        if _goes_back_itself(loops[0], ctx):
            if _is_too_often(loops, horizon, scheduler, ctx):
                return self._report(event, scheduler, "epochs", "batch", loops[0], ctx)
        elif horizon and _is_in_batches(horizon, scheduler, ctx) and _is_epoch_loop(loops[0], ctx):
            return self._report(event, scheduler, "batches", "epoch", loops[0], ctx)
        return None

    def _report(
        self, event: SchedulerStep, scheduler: Instance, unit: str, cadence: str, loop: Loop, ctx: Context
    ) -> Finding:
        name = ctx.name_of(scheduler) or "the scheduler"
        made = [(scheduler.site, f"the schedule is sized in {unit}")] if scheduler.site is not None else []
        return ctx.finding(
            self,
            event,
            f"`{_class_of(scheduler)}` is sized in {unit} but stepped once per {cadence}",
            effect="the schedule is over within the first epoch and starts anew or stays at its end"
            if cadence == "batch"
            else _TOO_SELDOM,
            help=f"step `{name}` once per {'epoch' if cadence == 'batch' else 'batch'}, or size it in "
            + ("batches" if cadence == "batch" else "epochs"),
            trace=[
                *made,
                (loop.site, f"this loop runs once per {cadence}"),
                (event.site, "and steps it here"),
            ],
            fixes=_fix(event, cadence, loop, ctx),
        )


# ------------------------------------------------------------------------------------------------- the schedule


def _class_of(scheduler: Instance) -> str:
    return scheduler.library_name.rpartition(".")[2]


def _option(scheduler: Instance, key: str, ctx: Context) -> Value | None:
    signature = ctx.facts.signatures[scheduler.library_name]
    given = ctx.argument(scheduler, signature.index(key), key)
    return None if given is None or ctx.is_none(given) else given


def _horizon(scheduler: Instance, ctx: Context) -> Value | None:
    """The value that says how long a schedule is."""
    keys = _HORIZONS.get(_class_of(scheduler), ())
    return next((found for key in keys if (found := _option(scheduler, key, ctx)) is not None), None)


def _is_meant_to_be_small(scheduler: Instance, ctx: Context) -> bool:
    """Whether each step of a schedule changes the rate so little that it may be taken often."""
    if _class_of(scheduler) not in _FRACTIONS:
        return False
    gamma = _option(scheduler, "gamma", ctx)
    number = ctx.constant(gamma)
    return gamma is not None and (not isinstance(number, int | float) or number > 0.9)


def _is_over_at_once(scheduler: Instance, ctx: Context) -> bool:
    """Whether a decay is so steep that an epoch of batches leaves nothing of the rate."""
    name = _class_of(scheduler)
    if name not in ("ExponentialLR", "StepLR"):
        return False
    given = _option(scheduler, "gamma", ctx)
    gamma = ctx.constant(given) if given is not None else 0.1
    period = ctx.constant(_option(scheduler, "step_size", ctx)) if name == "StepLR" else 1
    if not isinstance(gamma, int | float) or not isinstance(period, int) or period < 1:
        return False
    return bool(gamma ** (_FEW_BATCHES // period) <= _STEEP**_FEW_BATCHES)


def _is_too_often(loops: Sequence[Loop], horizon: Value | None, scheduler: Instance, ctx: Context) -> bool:
    """Whether a schedule is stepped in a loop within that over the epochs that it is sized in.

    It is sized in them where it is given their very number; what two constants say, only a loop over data decides.
    """
    for place, outer in enumerate(loops[1:], 1):
        epochs = _count(outer)
        if epochs is None:
            continue
        if horizon and _is_number_of(horizon, epochs):
            return True
        if any(ctx.goes_over_data(inner) for inner in loops[:place]) and (
            _is_over_at_once(scheduler, ctx) or (horizon and _is_within(horizon, epochs, scheduler, ctx))
        ):
            return True
    return False


def _is_number_of(horizon: Value, epochs: Value) -> bool:
    """Whether a horizon is the number of epochs, up to a sum."""
    terms = list(_terms(horizon))
    return any(_is_same_number(term, epochs) for term in terms) and all(
        isinstance(term, Const | Setting) or _is_same_number(term, epochs) for term in terms
    )


def _is_within(horizon: Value, epochs: Value, scheduler: Instance, ctx: Context) -> bool:
    """Whether a horizon of constants equals the number of epochs, or (for milestones) lies within it."""
    if any(_is_same_number(term, epochs) for term in _terms(horizon)):
        return False
    number = ctx.constant(epochs)
    if not isinstance(number, int) or number < _FEW_EPOCHS:
        return False
    if _class_of(scheduler) in _FRACTIONS:
        marks = [ctx.constant(mark) for mark in (horizon.items if isinstance(horizon, Items) else (horizon,))]
        known = [mark for mark in marks if isinstance(mark, int)]
        return bool(known) and len(known) == len(marks) and max(known) <= number
    return bool(ctx.constant(horizon) == number)


def _terms(value: Value) -> Iterator[Value]:
    """The terms of a sum or difference."""
    if isinstance(value, Symbol) and value.name in ("+", "-"):
        for term in value.inputs:
            yield from _terms(term)
    else:
        yield value


def _is_same_number(left: Value, right: Value) -> bool:
    if isinstance(left, Setting) and isinstance(right, Setting):
        return left.name == right.name
    return left is right and not isinstance(left, Const)


def _is_in_batches(horizon: Value, scheduler: Instance, ctx: Context) -> bool:
    """Whether a horizon is computed from the length of a loader."""
    if _class_of(scheduler) == "OneCycleLR" and _option(scheduler, "steps_per_epoch", ctx) is not None:
        return True
    sources = [source for _, option in alternatives(horizon) for source in ctx.sources(option)]
    symbols = [source for source in sources if isinstance(source, Symbol) and source.inputs]
    return any(
        source.detail == "estimated_stepping_batches"
        or (source.name == "len" and ctx.guessed_role(source.inputs[0]) == "loader")
        for source in symbols
    )


def _is_left_to_epochs(frame: Frame, ctx: Context) -> bool:
    """Whether ``configure_optimizers`` plainly returns a scheduler, and says nothing of an interval."""
    configure = frame.definition
    if configure is None or "interval" in ctx.source_of(configure):
        return False
    if any(isinstance(node, ast.Dict) and None in node.keys for node in ast.walk(configure.node)):
        return False  # `**config` may say it
    returned = [node.value for node in ast.walk(configure.node) if isinstance(node, ast.Return)]
    return any(
        (isinstance(value, ast.Tuple | ast.List) and len(value.elts) == 2)
        or (isinstance(value, ast.Dict) and any(getattr(key, "value", "") == "lr_scheduler" for key in value.keys))
        for value in returned
    )


# ----------------------------------------------------------------------------------------------------- the loops


def _goes_back_itself(loop: Loop, ctx: Context) -> bool:
    """Whether a loop goes backward each time, and no other loop within it does."""
    return any(ctx.loops_around(event)[:1] == (loop,) for event in _backwards(loop))


def _is_epoch_loop(loop: Loop, ctx: Context) -> bool:
    """Whether a loop contains the loop over the batches."""
    return any(
        inner is not loop and outer is loop and ctx.goes_over_data(inner)
        for event in _backwards(loop)
        for inner, outer in pairwise(ctx.loops_around(event))
    )


def _backwards(loop: Loop) -> Iterator[Event]:
    return (event for event in walk(loop.body) if isinstance(event, Backward))


def _count(loop: Loop) -> Value | None:
    """The number of iterations of ``for … in range(…)``."""
    value = loop.iterable
    for _ in range(3):
        if isinstance(value, Symbol) and not value.name.endswith("range") and value.inputs:
            value = value.inputs[0]  # tqdm(range(…)), enumerate(…)
    if not isinstance(value, Symbol) or not value.name.endswith("range") or not value.inputs:
        return None
    if len(value.inputs) == 1:
        return value.inputs[0]
    start, end = value.inputs[:2]
    if isinstance(end, Symbol) and end.name == "+":  # range(start, start + n)
        return next((side for side in end.inputs if not _is_same(side, start)), end)
    return end


def _is_same(left: Value, right: Value) -> bool:
    return left is right or (isinstance(left, Const) and isinstance(right, Const) and left.value == right.value)


# ------------------------------------------------------------------------------------------------------- the fix


def _fix(event: SchedulerStep, cadence: str, loop: Loop, ctx: Context) -> list[Fix]:
    """Move the step behind the loop over the batches, or behind the optimizer's step in it."""
    targets = [loop.site] if cadence == "batch" else [e.site for e in walk(loop.body) if isinstance(e, OptimizerStep)]
    if not targets or targets[0].module is not event.site.module or not _is_one_scope(event.site, targets[0], ctx):
        return []
    unit = "epoch" if cadence == "batch" else "batch"
    edits = move_after(event.site, targets[0])
    return offer(f"Step once per {unit}", edits, "suggestion", of=event.site, at=event.site)


def _is_one_scope(left: Site, right: Site, ctx: Context) -> bool:
    return ctx.scope(left) == ctx.scope(right)
