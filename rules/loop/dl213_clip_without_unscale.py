"""Gradients that are clipped while a gradient scaler still has them scaled up.

With `GradScaler` the gradients are thousands of times too large until they are unscaled. Clipping them first makes
them all but vanish once the step divides by the scale.

Measured on torch 2.13 at the initial scale of 65536: the norm that clipping sees is 22660 instead of 0.346, and the
update is 1.5e-6 instead of 3.5e-2.

## Bad
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()

## Good
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()

## Not reported
`scaler.unscale_` on some path before the clipping, scalers that are switched off, `accelerator.clip_grad_norm_` and
`fabric.clip_gradients` (they unscale themselves), gradients that are unscaled by hand, thresholds that
are multiplied by the scale, and scalers that an unresolved helper may have used.

## Fix (unsafe)
Inserts `scaler.unscale_(optimizer)` before the clipping, where the step stands in the same function. Unsafe because
updates become larger, as they should.

## On real code
742 public repositories: 14 findings in 7 of them, all true: the example of distributed minGPT, a recommender's trainer
and several semi-supervised ones clip scaled gradients, and a trainer of speech unscales with another scaler. In 322
others 8: 7 true, and 1 false, where several trainings have a scaler each, which is silent since.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from dllint.api import (
    AttributeAssigned,
    Backward,
    Context,
    Edits,
    Event,
    Finding,
    GradientClip,
    Instance,
    OpaqueCall,
    OptimizerStep,
    Program,
    Rule,
    ScalerUnscale,
    Site,
    Value,
    attribute_of,
    insert_before,
)

State = str  # of the gradients: plain, scaled, clipped (while scaled), unscaled or unknown

_KINDS = (Backward, GradientClip, OptimizerStep, ScalerUnscale, AttributeAssigned, OpaqueCall)


# ------------------------------------------------------------------------------------------------- excuses


def is_off(event: GradientClip, scaler: Value, ctx: Context) -> bool:
    """the scaler is switched off"""
    enabled = scaler.arguments.keywords.get("enabled") if isinstance(scaler, Instance) else None
    return enabled is not None and not ctx.is_setting(enabled) and ctx.constant(enabled) is False


def unscales_itself(event: GradientClip, scaler: Value, ctx: Context) -> bool:
    """what clips the gradients unscales them itself"""
    if event.function.startswith(("accelerate.", "fabric.")):
        return True
    return any(_is_called_at(event.site, other) for other in ctx.all_of(ScalerUnscale))


def is_limit_scaled(event: GradientClip, scaler: Value, ctx: Context) -> bool:
    """the threshold is computed from the scale: `max_norm * scaler.get_scale()`, there or in what clips"""
    clips = [event, *(each for each in ctx.all_of(GradientClip) if _is_called_at(event.site, each))]
    behind = (source for each in clips if each.limit is not None for source in ctx.sources(each.limit))
    return any(ctx.guessed_role(source) == "scaler" and ctx.is_same(source, scaler) for source in behind)


def _is_called_at(site: Site, event: Event) -> bool:
    return any(frame.call is site for frame in event.frame.stack())


class ClipWithoutUnscale(Rule):
    code = "DL213"
    name = "clip-without-unscale"
    category = "correctness"
    severity = "error"
    triggers = (
        ("scale", "mixed_precision", "precision"),
        ("backward",),
        ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_", "clip_grad_value", "clip_grad", "clip_gradients"),
    )
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping",)

    excuses = (is_off, unscales_itself, is_limit_scaled)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        scaled = [event.scaler for event in ctx.all_of(Backward) if event.scaler is not None]
        scalers = {id(scaler): scaler for each in scaled for scaler in ctx.objects(each)}
        for scaler in scalers.values():
            flow = ctx.follow("plain", _scale_after, _KINDS, partial(_is_about_scale, scaler, ctx))
            for event, states in flow.arrivals.items():
                if not isinstance(event, GradientClip) or "scaled" not in states:
                    continue
                if states <= {"scaled", "clipped", "plain"} and not ctx.excused(self, event, scaler):
                    yield self._report(event, scaler, ctx)

    def _report(self, event: GradientClip, scaler: Value, ctx: Context) -> Finding:
        called = ctx.called(scaler, "scaler")
        backward = next(e for e in ctx.all_of(Backward) if e.scaler is not None and ctx.is_same(e.scaler, scaler))
        step = _next_step(event, scaler, ctx)
        call = _unscaling(event, step, ctx) if step is not None else ""
        optimizer = ctx.name_of(step.optimizer) if step is not None else ""
        name = ctx.name_of(scaler) or "scaler"
        wanted = call or f"{name}.unscale_({optimizer or 'optimizer'})"
        if backward.via:  # Accelerate or Fabric, whose step is that of the optimizer
            wanted = f"{name}.unscale_gradients()" if backward.via == "accelerate" else f"{name}.clip_gradients(...)"
        return ctx.finding(
            self,
            event,
            f"gradients are clipped while {called} still has them scaled",
            on=[backward],
            effect="clipping sees norms thousands of times too large, so almost nothing is left of each update",
            help=f"call `{wanted}` before clipping",
            trace=[(backward.site, "the gradients are scaled up"), (event.site, "and clipped at that scale")],
            fix=("Unscale the gradients first", insert_before(event.site, call) if call else Edits()),
        )


def _next_step(clip: GradientClip, scaler: Value, ctx: Context) -> OptimizerStep | None:
    """The first step with the scaler after a place, in the order of the text."""
    later = (step for step in ctx.steps() if ctx.position(step) > ctx.position(clip) and step.scaler is not None)
    return next((step for step in later if ctx.is_same(step.scaler, scaler)), None)


def _unscaling(clip: GradientClip, step: OptimizerStep, ctx: Context) -> str:
    """The call that ``scaler.step(optimizer)`` asks for, if it can stand before the clipping: once for each step."""
    node = step.site.node
    if step.frame is not clip.frame or ctx.loops_around(step) != ctx.loops_around(clip):
        return ""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
        return ""
    module = step.site.module
    scaler, optimizer = (ctx.source_of(Site(module, part)) for part in (node.func.value, node.args[0]))
    return f"{scaler}.unscale_({optimizer})"


def _is_about_scale(scaler: Value, ctx: Context, event: Event) -> bool:
    if isinstance(event, ScalerUnscale):
        return ctx.is_same(event.scaler, scaler)
    if isinstance(event, OpaqueCall):
        return ctx.opaque_to(event, scaler) or _changes_gradients(event)
    if isinstance(event, AttributeAssigned):
        return event.attribute == "grad"
    if isinstance(event, GradientClip):
        return not unscales_itself(event, scaler, ctx) and not _is_of_another(event, scaler, ctx)
    if isinstance(event, Backward):
        return event.scaler is None or ctx.is_same(event.scaler, scaler)
    return isinstance(event, OptimizerStep)


def _is_of_another(clip: GradientClip, scaler: Value, ctx: Context) -> bool:
    """Whether the last backward pass before the clipping was scaled by another scaler: it is of another training."""
    before = [event for event in ctx.all_of(Backward) if ctx.position(event) < ctx.position(clip)]
    last = max(before, key=ctx.position, default=None)
    return last is not None and last.scaler is not None and not ctx.is_same(last.scaler, scaler)


def _changes_gradients(event: OpaqueCall) -> bool:
    """Whether a call is ``p.grad.mul_(...)`` or ``p.grad.data.div_(...)``."""
    receiver = attribute_of(event.receiver, "data") or event.receiver
    return attribute_of(receiver, "grad") is not None and event.name.endswith("_")


def _scale_after(event: Event, state: State) -> State:
    if isinstance(event, Backward):
        return "scaled" if event.scaler is not None else "plain"
    if isinstance(event, ScalerUnscale):
        return "unscaled"
    if isinstance(event, OptimizerStep):
        return "plain"
    if state in ("scaled", "clipped"):
        return "clipped" if isinstance(event, GradientClip) else "unknown"
    return state
