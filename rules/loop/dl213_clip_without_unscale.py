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
`fabric.clip_gradients` (they unscale themselves), and scalers that an unresolved helper may have used.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dllint.api import (
    Backward,
    Context,
    Event,
    Finding,
    GradientClip,
    Instance,
    OpaqueCall,
    OptimizerStep,
    Program,
    Rule,
    ScalerUnscale,
    Value,
)

State = str  # of the gradients: plain, scaled, unscaled or unknown


class ClipWithoutUnscale(Rule):
    code = "DL213"
    name = "clip-without-unscale"
    category = "correctness"
    severity = "error"
    triggers = (
        ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_", "clip_grad_value"),
        ("scale",),
        ("backward",),
    )
    confirmable = True
    references = ("https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        scalers: list[Value] = []
        for event in ctx.events:
            if isinstance(event, Backward) and event.scaler is not None:
                scalers.extend(s for s in ctx.objects(event.scaler) if not any(s is known for known in scalers))
        for scaler in scalers:
            if _is_off(scaler, ctx):
                continue
            flow = ctx.follow("plain", _next, partial(_matters, scaler, ctx))
            for event, states in flow.arrivals.items():
                if isinstance(event, GradientClip) and "scaled" in states and states <= {"scaled", "plain"}:
                    yield self._report(event, scaler, ctx)

    def _report(self, event: GradientClip, scaler: Value, ctx: Context) -> Finding:
        name = ctx.name_of(scaler) or "scaler"
        backward = next(
            e for e in ctx.events if isinstance(e, Backward) and e.scaler is not None and ctx.is_same(e.scaler, scaler)
        )
        step = next((step for step in ctx.steps() if step.scaler is not None and ctx.is_same(step.scaler, scaler)), None)
        optimizer = ctx.name_of(step.optimizer) if step is not None else ""
        return ctx.finding(
            self,
            event.site,
            f"gradients are clipped while `{name}` still has them scaled",
            effect="clipping sees norms thousands of times too large, so almost nothing is left of each update",
            help=f"call `{name}.unscale_({optimizer or 'optimizer'})` before clipping",
            trace=[(backward.site, "the gradients are scaled up"), (event.site, "and clipped at that scale")],
        )


def _is_off(scaler: Value, ctx: Context) -> bool:
    enabled = scaler.arguments.keywords.get("enabled") if isinstance(scaler, Instance) else None
    return enabled is not None and not ctx.is_setting(enabled) and ctx.constant(enabled) is False


def _matters(scaler: Value, ctx: Context, event: Event) -> bool:
    if isinstance(event, ScalerUnscale):
        return ctx.is_same(event.scaler, scaler)
    if isinstance(event, OpaqueCall):
        return ctx.opaque_to(event, scaler)
    if isinstance(event, GradientClip):
        return not event.function.startswith(("accelerate.", "fabric."))
    if isinstance(event, Backward):
        return event.scaler is None or ctx.is_same(event.scaler, scaler)
    return isinstance(event, OptimizerStep)


def _next(event: Event, state: State) -> State:
    if isinstance(event, Backward):
        return "scaled" if event.scaler is not None else "plain"
    if isinstance(event, ScalerUnscale):
        return "unscaled"
    if isinstance(event, OptimizerStep):
        return "plain"
    return "unknown" if isinstance(event, OpaqueCall) and state == "scaled" else state
