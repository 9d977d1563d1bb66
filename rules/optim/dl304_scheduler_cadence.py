"""A learning-rate schedule that is sized in epochs and stepped per batch, or the other way round.

`CosineAnnealingLR(T_max=epochs)` stepped per batch goes up and down hundreds of times; `OneCycleLR(total_steps=…)`
stepped per epoch never leaves its first percent. A cosine over all epochs that is stepped in every tenth of them ends
near its beginning.

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
Schedules whose horizon cannot be related to the loops; steps with an epoch argument (`step(epoch + i / n)`), loops that
a framework runs, and schedulers that Accelerate has prepared, where they step too often; steps that are conditional on
the position in the epoch (one in so many epochs counts, if that number is known); schedulers that step in the loop
around as well; steps that are
meant to be small (`StepLR` with a `gamma` above 0.9); warm-ups by `LinearLR` of a constant length. Warm restarts, and
schedulers that Lightning is told an interval for. Functions of `LambdaLR` that multiply the step they are given, or
divide it by a constant, or of which only the warm-up is sized in epochs. Where a condition decides about the step that
the optimizer's step is not under, it is a question.

## Fix (suggestion)
Moves the step out of the loop over the batches, or into it, where both loops stand in one function.

## On real code
742 public repositories: 4 findings in 1 of them, all true: schedules sized in batches that Lightning steps once an
epoch. Schedules that are stepped in one of so many turns: no finding in 763. Of 16 in unread ones 10
were true, 4 false and 2 doubtful: a warm-up counted in batches, a schedule of steps, a cycle of one step per epoch, and
a step under a condition that never held. The two last kinds are silent or questions since. Schedules whose
length another method of the class counts in batches: no finding in 259 of 800, those that have the words.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import partial

from dllint.api import (
    Assumption,
    Const,
    Context,
    Edits,
    Finding,
    Frame,
    Guards,
    Instance,
    Items,
    Loop,
    OptimizerStep,
    Program,
    Rule,
    SchedulerCreated,
    SchedulerStep,
    Setting,
    Stride,
    Symbol,
    Value,
    added,
    alternatives,
    assumed_under,
    move_after,
    receiver_of,
    summands,
    walk,
)

_HORIZONS = {
    "CosineAnnealingLR": ("T_max",),
    "OneCycleLR": ("total_steps", "steps_per_epoch"),
    "PolynomialLR": ("total_iters",),
    "LinearLR": ("total_iters",),
    "StepLR": ("step_size",),
    "MultiStepLR": ("milestones",),
    "LambdaLR": ("lr_lambda",),
    "get_linear_schedule_with_warmup": ("num_training_steps",),
    "get_cosine_schedule_with_warmup": ("num_training_steps",),
    "get_polynomial_decay_schedule_with_warmup": ("num_training_steps",),
}
_OF_FUNCTION = ("lr_lambda",)
_FRACTIONS = frozenset(("StepLR", "MultiStepLR"))  # their horizon is a part of the run, not all of it
_OPERANDS = 2
_TOO_SELDOM = "only the first percent of the schedule is ever used"
_FEW_EPOCHS = 5  # a constant below could be anything


# ------------------------------------------------------------------------------------------------- excuses


def is_given_the_epoch(event: SchedulerStep, scheduler: Instance, ctx: Context) -> bool:
    """the scheduler is told where in the schedule it is"""
    return bool(event.arguments.positional) or "epoch" in event.arguments.keywords


def is_stepped_by_others(event: SchedulerStep, scheduler: Instance, ctx: Context) -> bool:
    """a framework runs the loop, or Accelerate has prepared the scheduler, and takes a step for each process in one"""
    loops = ctx.loops_around(event)
    is_seldom = bool(loops) and ctx.loop_unit(loops[0]) == "epochs"  # which a few processes do not make up for
    return ctx.is_managed(event) or (ctx.is_prepared(scheduler) and not is_seldom)


def is_meant_to_be_small(event: SchedulerStep, scheduler: Instance, ctx: Context) -> bool:
    """each step of the schedule changes the rate so little that it may be taken often"""
    gamma = _option(scheduler, "gamma", ctx) if ctx.class_name(scheduler) in _FRACTIONS else None
    number = ctx.constant(gamma)
    return gamma is not None and (not isinstance(number, int | float) or number > 0.9)


def is_stepped_at_some_place(event: SchedulerStep, scheduler: Instance, ctx: Context) -> bool:
    """a condition on the position in the loop decides when it steps, and not whether it ever gets to its end"""
    if _stride_of(event, scheduler, ctx) is not None:
        return False
    loops = ctx.loops_around(event)
    return any(not guard.names.isdisjoint(loop.targets) for loop in loops for guard in event.guards)


def steps_in_both_loops(event: SchedulerStep, scheduler: Instance, ctx: Context) -> bool:
    """it steps in a loop and in the one around it: for the rest of the batches, or for schedules of another kind"""
    loops, others = ctx.loops_around(event), (each for each in ctx.all_of(SchedulerStep) if each is not event)
    places = (ctx.loops_around(each) for each in others if ctx.is_same(each.scheduler, event.scheduler))
    return any(around and (around[0] in loops[1:] or loops[0] in around[1:]) for around in places)


class SchedulerCadence(Rule):
    code = "DL304"
    name = "scheduler-cadence"
    category = "correctness"
    severity = "error"
    default = False
    preview = True
    triggers = (("step", "configure_optimizers"), (*_HORIZONS, "ExponentialLR"))
    confirmable = True
    fix_safety = "suggestion"
    references = ("https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",)
    excuses = (
        is_given_the_epoch,
        is_stepped_by_others,
        is_meant_to_be_small,
        is_stepped_at_some_place,
        steps_in_both_loops,
    )

    def on_scheduler_created(self, event: SchedulerCreated, ctx: Context) -> Iterator[Finding]:
        """A schedule that Lightning steps by itself."""
        scheduler, frame = event.scheduler, event.frame
        if frame.function != "configure_optimizers" or not ctx.is_managed(event) or not isinstance(scheduler, Instance):
            return
        horizon = _horizon(scheduler, ctx)
        if horizon is None or not _is_in_batches(horizon, scheduler, ctx) or not _is_left_to_epochs(frame, ctx):
            return
        if any("sched" in receiver_of(call.node).lower() for call in ctx.method_calls("step")):
            return  # the module steps it by hand as well, which DL305 is about
        yield ctx.finding(
            self,
            event,
            f"`{ctx.class_name(scheduler)}` is sized in batches, but Lightning steps it once per epoch",
            on=[*_assumed_of_size(scheduler, ctx)],
            effect=_TOO_SELDOM,
            help='return it as `{"scheduler": …, "interval": "step"}`',
        )

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for event in ctx.all_of(SchedulerStep):
            schedulers = [each for each in ctx.objects(event.scheduler) if isinstance(each, Instance)]
            found = ((each, _wrong_cadence(event, each, ctx)) for each in schedulers)
            wrong = next(((each, cadence) for each, cadence in found if cadence), None)
            if wrong is not None and not ctx.excused(self, event, wrong[0]):
                yield self._report(event, *wrong, ctx)
            stride = _stride_of(event, schedulers[0], ctx) if wrong is None and len(schedulers) == 1 else None
            if stride is not None and not ctx.excused(self, event, schedulers[0]):
                yield self._report_stride(event, schedulers[0], stride, ctx)

    def _report_stride(self, event: SchedulerStep, scheduler: Instance, stride: Stride, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            event,
            f"`{ctx.class_name(scheduler)}` is as long as the loop, and stepped in one of {stride.count} iterations",
            on=[*_assumed_of_size(scheduler, ctx, ctx.loops_around(event)), *stride.assumed],
            effect=f"training ends when one part in {stride.count} of the schedule is over",
            help=f"step {ctx.called(event.scheduler, 'scheduler')} outside of the condition",
        )

    def _report(self, event: SchedulerStep, scheduler: Instance, cadence: str, ctx: Context) -> Finding:
        loop = ctx.loops_around(event)[0]
        is_too_often = cadence == "batch"
        unit, other_unit, other = ("epochs", "batches", "epoch") if is_too_often else ("batches", "epochs", "batch")
        made = [(scheduler.site, f"the schedule is sized in {unit}")] if scheduler.site is not None else []
        return ctx.finding(
            self,
            event,
            f"`{ctx.class_name(scheduler)}` is sized in {unit} but stepped once per {cadence}",
            on=[*_assumed_of_size(scheduler, ctx, ctx.loops_around(event))],
            assuming=assumed_under(_conditions_in_turn(event, loop, ctx)),
            effect="the schedule is over within the first epoch and starts again or stays at its end"
            if is_too_often
            else _TOO_SELDOM,
            help=f"step {ctx.called(event.scheduler, 'scheduler')} once per {other}, or size it in {other_unit}",
            trace=[*made, (loop.site, f"this loop runs once per {cadence}"), (event.site, "and steps it here")],
            fix=(f"Step once per {other}", _stepped_once_per(event, cadence, loop, ctx)),
        )


# ------------------------------------------------------------------------------------------------- the schedule


def _option(scheduler: Instance, key: str, ctx: Context) -> Value | None:
    signature = ctx.facts.signatures[scheduler.library_name]
    given = ctx.argument(scheduler, signature.index(key), key)
    return None if given is None or ctx.is_none(given) else given


def _horizon(scheduler: Instance, ctx: Context) -> Value | None:
    """The value that says how long a schedule is."""
    keys = _HORIZONS.get(scheduler.library_name.rpartition(".")[2], ())  # not for a class of the project of such a name
    if keys == _OF_FUNCTION:
        spans = sorted(ctx.spans_of_schedule(scheduler), key=lambda span: not _is_in_batches(span, scheduler, ctx))
        return next((each for each in spans if not isinstance(each, Const)), None)
    return next((found for key in keys if (found := _option(scheduler, key, ctx)) is not None), None)


def _is_too_often(loops: Sequence[Loop], horizon: Value | None, scheduler: Instance, ctx: Context) -> bool:
    """Whether a schedule is stepped in a loop within that over the epochs that it is sized in.

    It is sized in them where it is given their very number; what two constants say, only a loop over data decides.
    """
    for place, outer in enumerate(loops[1:], 1):
        epochs = ctx.loop_count(outer)
        if epochs is None:
            continue
        if horizon and _is_number_of(horizon, epochs):
            return True
        if any(ctx.goes_over_data(inner) for inner in loops[:place]) and (
            ctx.is_over_at_once(scheduler) or (horizon and _is_within(horizon, epochs, scheduler, ctx))
        ):
            return True
    return False


def _is_all_of_epochs(loops: Sequence[Loop], scheduler: Instance, ctx: Context) -> bool:
    """Whether no part of the schedule of a function is known to be of another length than in epochs.

    A warm-up that is sized in them is over within the first epoch, and what comes after it may be as long as all steps.
    """
    if _HORIZONS.get(scheduler.library_name.rpartition(".")[2]) != _OF_FUNCTION:
        return True
    parts = [each for each in ctx.spans_of_schedule(scheduler) if not isinstance(each, Const)]
    counts = [count for loop in loops[1:] if (count := ctx.loop_count(loop)) is not None]
    whole = [
        part
        for part in parts
        if any(_is_number_of(part, count) or _is_within(part, count, scheduler, ctx) for count in counts)
    ]
    terms = [term for each in whole for term in summands(each)]
    return all(part in whole or any(_is_same_number(part, term) for term in terms) for part in parts)


def _is_number_of(horizon: Value, epochs: Value) -> bool:
    """Whether a horizon is the number of epochs, up to a sum."""
    terms = list(summands(horizon))
    return any(_is_same_number(term, epochs) for term in added(horizon)) and all(
        isinstance(term, Const | Setting) or _is_same_number(term, epochs) for term in terms
    )


def _is_within(horizon: Value, epochs: Value, scheduler: Instance, ctx: Context) -> bool:
    """Whether a horizon of constants equals the number of epochs, or (for milestones) lies within it."""
    if any(_is_same_number(term, epochs) for term in summands(horizon)) or _counts_steps(horizon, ctx):
        return False
    number = ctx.constant(epochs)
    if not isinstance(number, int) or number < _FEW_EPOCHS or _is_warm_up(scheduler, ctx):
        return False
    if ctx.class_name(scheduler) in _FRACTIONS:
        given = horizon.default if isinstance(horizon, Setting) else horizon
        marks = [ctx.constant(mark) for mark in (given.items if isinstance(given, Items) else (given,))]
        known = [mark for mark in marks if isinstance(mark, int)]
        return bool(known) and len(known) == len(marks) and max(known) <= number
    return bool(ctx.constant(horizon) == number)


def _is_warm_up(scheduler: Instance, ctx: Context) -> bool:
    """Whether a schedule only rises, as `LinearLR` does by default: that of some batches may be as long by chance."""
    if not scheduler.library_name.endswith(".LinearLR"):
        return False
    end = _option(scheduler, "end_factor", ctx)
    return end is None or ctx.constant(end) == 1


def _counts_steps(horizon: Value, ctx: Context) -> bool:
    """Whether a horizon is a setting that counts steps, as its name says: `--warmup-iters`, and not `--step-size`."""
    return isinstance(horizon, Setting) and ctx.speaks_of("number-of-steps", horizon.name)


def _is_same_number(left: Value, right: Value) -> bool:
    if isinstance(left, Setting) and isinstance(right, Setting):
        return left.name == right.name
    return left is right and not isinstance(left, Const)


def _is_cycle(scheduler: Instance) -> bool:
    return scheduler.library_name.endswith(".OneCycleLR")


def _is_in_batches(horizon: Value, scheduler: Instance, ctx: Context) -> bool:
    """Whether a horizon is computed from the length of a loader; not with one step per epoch (`steps_per_epoch=1`).

    What is divided by the length of one counts epochs again.
    """
    if _is_cycle(scheduler):
        steps = _option(scheduler, "steps_per_epoch", ctx)
        if steps is not None:
            return bool(ctx.constant(steps) != 1)
    found = (ctx.sources_up_to(option, partial(_counts_epochs_again, ctx)) for _, option in alternatives(horizon))
    return any(_is_number_of_batches(source, ctx) for sources in found for source in sources)


def _counts_epochs_again(ctx: Context, value: Value) -> bool:
    """Whether a value is something divided by a number of batches."""
    if not isinstance(value, Symbol) or value.name not in ("/", "//") or len(value.inputs) < _OPERANDS:
        return False
    return any(_is_number_of_batches(each, ctx) for each in ctx.sources(value.inputs[1]))


def _is_number_of_batches(value: Value, ctx: Context) -> bool:
    if not isinstance(value, Symbol) or not value.inputs:
        return False
    is_length = value.name == "len" and ctx.guessed_role(value.inputs[0]) == "loader"
    return value.detail == "estimated_stepping_batches" or is_length or ctx.is_set_to_batches(value)


def _assumed_of_size(scheduler: Instance, ctx: Context, loops: Sequence[Loop] = ()) -> Iterator[Assumption]:
    """What is assumed by whoever takes a schedule to be as long as it seems.

    However the number of iterations of a loop comes about, a schedule of this very number is as long as the loop.
    """
    horizon = _horizon(scheduler, ctx)
    if horizon is None:
        return
    leads = {id(value) for value in ctx.sources(horizon) if _leads_to_batches(value, ctx)}
    counts = [count for loop in loops if (count := ctx.loop_count(loop)) is not None] if not leads else []
    yield from ctx.assumed_of_computation(
        horizon,
        lambda value: (
            _is_number_of_batches(value, ctx)
            or (bool(leads) and id(value) not in leads)
            or any(_is_same_number(value, count) for count in counts)
        ),
    )


def _leads_to_batches(value: Value, ctx: Context) -> bool:
    return any(_is_number_of_batches(each, ctx) for each in ctx.sources(value))


def _says_interval(configure: ast.AST) -> bool:
    named = (getattr(node, "value", getattr(node, "arg", "")) for node in ast.walk(configure))
    return any(each == "interval" for each in named)


def _is_left_to_epochs(frame: Frame, ctx: Context) -> bool:
    """Whether ``configure_optimizers`` plainly returns a scheduler, and says nothing of an interval."""
    configure = frame.definition
    if configure is None or _says_interval(configure.node):
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


def _wrong_cadence(event: SchedulerStep, scheduler: Instance, ctx: Context) -> str:
    """``batch`` or ``epoch``: how often a scheduler steps that is not sized in it; empty if that may be right."""
    loops = ctx.loops_around(event)
    horizon = _horizon(scheduler, ctx)
    unit = ctx.loop_unit(loops[0]) if loops else "unknown"
    if unit == "batches" and _is_too_often(loops, horizon, scheduler, ctx):
        return "batch" if _is_all_of_epochs(loops, scheduler, ctx) else ""
    is_seldom = unit == "epochs" and horizon and _is_in_batches(horizon, scheduler, ctx)
    return "epoch" if is_seldom and not _fits(scheduler, loops[0], ctx) else ""


def _conditions_in_turn(event: SchedulerStep, loop: Loop, ctx: Context) -> Guards:
    """The conditions under which a scheduler steps in a loop, and the optimizer does not: they may seldom hold."""
    beyond = [ctx.conditions_beyond(event, each) for each in walk(loop.body) if isinstance(each, OptimizerStep)]
    return min(beyond, key=len, default=())


def _stride_of(event: SchedulerStep, scheduler: Instance, ctx: Context) -> Stride | None:
    """In one of how many iterations of a loop a scheduler steps, and nowhere else, that is as long as the loop."""
    loops, horizon = ctx.loops_around(event), _horizon(scheduler, ctx)
    count = ctx.loop_count(loops[0]) if loops else None
    if count is None or horizon is None or scheduler.site is None or ctx.class_name(scheduler) in _FRACTIONS:
        return None
    is_as_long = _is_number_of(horizon, count) or _is_within(horizon, count, scheduler, ctx)
    stride = ctx.stride_of(event, loops[0]) if is_as_long else None
    if stride is None or stride.count < 2 or ctx.is_within(scheduler.site, loops[0].site):
        return None
    return None if ctx.may_step_elsewhere(event) else stride


def _fits(scheduler: Instance, loop: Loop, ctx: Context) -> bool:
    """Whether a cycle of ``epochs`` times ``steps_per_epoch`` is as long as a loop, whatever these are called."""
    keys = ("epochs", "steps_per_epoch") if _is_cycle(scheduler) else ()
    parts = [ctx.constant(_option(scheduler, key, ctx)) for key in keys]
    rounds = ctx.constant(ctx.loop_count(loop))
    numbers = [part for part in parts if isinstance(part, int)]
    return len(numbers) == 2 and isinstance(rounds, int) and numbers[0] * numbers[1] <= rounds


def _stepped_once_per(event: SchedulerStep, cadence: str, loop: Loop, ctx: Context) -> Edits:
    """Move the step after the loop over the batches, or after the optimizer's step in it."""
    targets = [loop.site] if cadence == "batch" else [e.site for e in walk(loop.body) if isinstance(e, OptimizerStep)]
    if not targets or targets[0].module is not event.site.module or ctx.scope(event.site) != ctx.scope(targets[0]):
        return Edits()
    return move_after(event.site, targets[0])
