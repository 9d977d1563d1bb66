"""A step past the gradient scaler that has scaled the gradients, or a scaler that is not updated after it.

After `scaler.scale(loss).backward()` gradients are 65,536 times too large. `scaler.step(optimizer)` divides them before
the step, and skips it where one has overflowed; `optimizer.step()` does neither.

Without `scaler.update()`, or with one that waits for the end of the loop, the second step ends the run, with "step()
has already been called since the last update()": where the scaler is switched on by an option, only that of those who
use it.

Measured on torch 2.13: one step of SGD changes the weights by 1254 instead of .0191. Adam does not notice the scale,
but clipping, and infinite gradients, which spoil its averages for good.

## Bad
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        optimizer.step()
        scaler.update()

## Good
    scaler = torch.amp.GradScaler("cuda")
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cuda"):
            loss = criterion(model(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

## Not reported
Steps after `scaler.unscale_(optimizer)`; steps of another optimizer than the one that the loss is for, or whose
parameters are not known; arms of a condition of which one scales and another steps; scalers that are switched off.
Scalers without an update where they come from elsewhere, or unknown code gets hold of them, and single steps outside
of loops; updates after a loop in which each step is that of another optimizer, or which does not go over a loader.

## Fix (unsafe)
Lets the scaler take the step, where both stand in one function, or updates it after the step. Unsafe because it changes
training, as it should.

## On real code
206 public repositories: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import (
    Backward,
    Context,
    Edits,
    Event,
    Finding,
    Instance,
    OpaqueCall,
    OptimizerStep,
    Rule,
    ScalerUnscale,
    ScalerUpdate,
    ZeroGrad,
    insert_after,
    replace_range,
    together,
)


def is_switched_off(event: OptimizerStep, scaled: Backward, ctx: Context) -> bool:
    """the scaler is switched off"""
    scalers = [each for each in ctx.objects(scaled.scaler) if isinstance(each, Instance)]
    return not all(_may_be_on(each, ctx) for each in scalers)


def is_for_another(event: OptimizerStep, scaled: Backward, ctx: Context) -> bool:
    """the loss is not known to be for this optimizer"""
    modules, _ = ctx.parameters_of(event.optimizer)
    behind = ctx.models_behind(scaled.loss) if scaled.loss is not None else []
    return not any(ctx.reaches(model, module) or ctx.reaches(module, model) for model in behind for module in modules)


def is_unscaled_by_hand(event: OptimizerStep, scaled: Backward, ctx: Context) -> bool:
    """the gradients may be unscaled on the way: unknown code gets the optimizer or the scaler"""
    between = ctx.events[ctx.position(scaled) : ctx.position(event)]
    given = [value for value in (event.optimizer, scaled.scaler) if value is not None]
    return any(isinstance(each, OpaqueCall) and any(ctx.opaque_to(each, value) for value in given) for each in between)


class GradScalerMisuse(Rule):
    code = "DL214"
    name = "grad-scaler-misuse"
    category = "correctness"
    severity = "error"
    triggers = (("GradScaler",), ("scale",), ("step",))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/notes/amp_examples.html",)
    excuses = (is_switched_off, is_for_another, is_unscaled_by_hand)

    def on_optimizer_step(self, event: OptimizerStep, ctx: Context) -> Iterator[Finding]:
        if ctx.is_managed(event):
            return
        if event.scaler is not None:
            yield from self._never_updated(event, ctx)
            return
        scaled = _scaled_backward(event, ctx)
        if scaled is None or ctx.excused(self, event, scaled):
            return
        name, scaler = ctx.called(event.optimizer, "optimizer"), ctx.called(scaled.scaler, "scaler")
        yield ctx.finding(
            self,
            event,
            f"{name} steps past {scaler}, with gradients that are still scaled",
            on=[scaled],
            effect="the step is 65,536 times too large, and is made with infinite gradients, too",
            help=f"call `step` of {scaler} with {name}, and then `update`",
            trace=[(scaled.site, "the gradients are scaled here"), (event.site, "and used as they are")],
            fix=("Let the scaler take the step", _by_the_scaler(event, scaled, ctx)),
        )

    def _never_updated(self, step: OptimizerStep, ctx: Context) -> Iterator[Finding]:
        made = [each for each in ctx.objects(step.scaler) if isinstance(each, Instance)] if step.scaler else []
        updates = [each for each in ctx.all_of(ScalerUpdate, OpaqueCall) if _may_update(each, made, ctx)]
        is_known = len(made) == 1 and made[0].library_name == "torch.amp.GradScaler"
        if not is_known or not ctx.loops_around(step) or not _may_be_on(made[0], ctx):
            return
        if not all(_comes_too_late(each, step, ctx) for each in updates):
            return
        name, optimizer = ctx.called(step.scaler, "scaler"), ctx.called(step.optimizer, "optimizer")
        kind = "updated after the loop only" if updates else "never updated"
        yield ctx.finding(
            self,
            step,
            f"{name} takes steps and is {kind}: the second of them raises",
            on=[step.scaler],
            effect="the run ends at its second step, wherever the scaler is switched on",
            help=f"call `update` of {name} after each step of {optimizer}",
            trace=[
                (made[0].site or step.site, "the scaler is made here"),
                (step.site, "takes a step here"),
                *((each.site, "and is updated when the loop is over") for each in updates),
            ],
            fix=("Update the scaler", _updated(step, ctx)),
        )


def _may_be_on(scaler: Instance, ctx: Context) -> bool:
    given = scaler.arguments.keywords.get("enabled")
    return given is None or ctx.is_setting(given) or ctx.constant(given) is not False


def _may_update(event: Event, scalers: list[Instance], ctx: Context) -> bool:
    """Whether an event is an update of a scaler, or a call that could not be followed and gets hold of it."""
    if isinstance(event, OpaqueCall):
        return any(ctx.opaque_to(event, each) for each in scalers)
    return isinstance(event, ScalerUpdate) and any(ctx.is_same(event.scaler, each) for each in scalers)


def _comes_too_late(update: Event, step: OptimizerStep, ctx: Context) -> bool:
    """Whether an update waits for the end of the loop over batches, each of which takes a step with one optimizer."""
    loop = ctx.training_loop(step)
    if loop is None or not isinstance(update, ScalerUpdate) or not ctx.goes_over_loader(loop):
        return False
    is_in_each_turn = ctx.loops_around(step)[0] is loop and not ctx.conditions_beyond(step, update)
    return is_in_each_turn and loop not in ctx.loops_around(update)


def _updated(step: OptimizerStep, ctx: Context) -> Edits:
    """``scaler.update()`` after ``scaler.step(optimizer)``, where that is a statement of its own."""
    scaler, found, _ = ctx.source_of(step.site).partition(".step(")
    is_named = bool(found) and all(part.isidentifier() for part in scaler.split("."))
    return insert_after(step.site, f"{scaler}.update()") if is_named else Edits()


def _scaled_backward(step: OptimizerStep, ctx: Context) -> Backward | None:
    """The backward pass of a scaled loss whose gradients a step uses as they are."""
    for event in reversed(ctx.since_last(OptimizerStep, before=step)):
        if isinstance(event, ScalerUnscale | ZeroGrad) or ctx.exclusive(event, step):
            return None
        if isinstance(event, Backward):
            is_scaled = event.scaler is not None and ctx.role(event.scaler) == "scaler"
            return event if is_scaled and not ctx.conditions_beyond(event, step) else None
    return None


def _by_the_scaler(step: OptimizerStep, scaled: Backward, ctx: Context) -> Edits:
    """``optimizer.step()`` becomes ``scaler.step(optimizer)``."""
    scaler, optimizer = _scaler_as_written(scaled, ctx), ctx.source_of(step.site)
    if step.frame is not scaled.frame or not scaler or not optimizer.endswith(".step()"):
        return Edits()
    edits = replace_range(step.site, f"{scaler}.step({optimizer.removesuffix('.step()')})")
    if any(isinstance(event, ScalerUpdate) for event in ctx.events):
        return edits
    return together(edits, insert_after(step.site, f"{scaler}.update()"))


def _scaler_as_written(scaled: Backward, ctx: Context) -> str:
    """``scaler`` in ``scaler.scale(loss).backward()``."""
    text = ctx.source_of(scaled.site)
    before, found, _ = text.partition(".scale(")
    return before if found and all(part.isidentifier() for part in before.split(".")) else ""
