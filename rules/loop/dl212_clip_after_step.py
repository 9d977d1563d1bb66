"""Gradients that are clipped after the optimizer has used them.

Clipping changes `.grad` in place. Behind the step it changes nothing that anybody will use: the update was made with
the unclipped gradients.

Measured on torch 2.13: with clipping to 1 behind the step, the update was 61.48 times the learning rate, which is the
unclipped norm.

## Bad
    loss.backward()
    optimizer.step()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)

## Good
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()

## Not reported
Clipping that a later step of the same or another optimizer uses (a second backward pass in between, two networks),
clipping of weights (`p.data.clamp_`), and paths on which the step has not happened yet.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Backward, Context, Event, Finding, GradientClip, OpaqueCall, OptimizerStep, Program, Rule, Value

State = str  # of the gradients: none, fresh or used


class ClipAfterStep(Rule):
    code = "DL212"
    name = "clip-after-step"
    category = "correctness"
    severity = "error"
    triggers = (
        ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_", "clip_grad_value", "clip_gradients"),
        ("step",),
        ("backward", "manual_backward"),
    )
    confirmable = True
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        optimizers = ctx.stepped_optimizers() if ctx.all_of(GradientClip) else []
        for optimizer in optimizers:
            # Unresolved calls can only take a suspicion away, and they are many: look at them where there is one.
            late = _late_clips(optimizer, ctx, besides=OpaqueCall) and _late_clips(optimizer, ctx)
            for event in late:
                if len(optimizers) == 1 or _concerns(event, optimizer, ctx):
                    yield self._report(event, optimizer, ctx)

    def _report(self, event: GradientClip, optimizer: Value, ctx: Context) -> Finding:
        name = ctx.name_of(optimizer) or "the optimizer"
        step = next(step for step in ctx.steps() if ctx.is_same(step.optimizer, optimizer))
        return ctx.finding(
            self,
            event.site,
            f"gradients are clipped after `{name}` has used them",
            effect="the clipping has no effect: each update is made with the unclipped gradients",
            help=f"clip between the backward pass and `{name}.step()`",
            trace=[(step.site, "the gradients are used"), (event.site, "and clipped only then")],
        )


def _late_clips(optimizer: Value, ctx: Context, besides: type[Event] | tuple[()] = ()) -> list[GradientClip]:
    """The clippings that find the gradients used on every path."""
    flow = ctx.follow("none", _next, lambda event: not isinstance(event, besides) and _matters(optimizer, ctx, event))
    return [
        event
        for event, states in flow.arrivals.items()
        if isinstance(event, GradientClip) and states == {"used"} and not ctx.is_managed(event)
    ]


def _matters(optimizer: Value, ctx: Context, event: Event) -> bool:
    if isinstance(event, OptimizerStep):
        return ctx.is_same(event.optimizer, optimizer)
    if isinstance(event, OpaqueCall):
        return ctx.opaque_to(event, optimizer)
    return isinstance(event, Backward | GradientClip)


def _next(event: Event, state: State) -> State:
    if isinstance(event, Backward):
        return "fresh"
    if isinstance(event, OptimizerStep):
        return "used"
    return "unknown" if isinstance(event, OpaqueCall) and state == "used" else state


def _concerns(event: GradientClip, optimizer: Value, ctx: Context) -> bool:
    """Whether what is clipped belongs to the optimizer, and to it alone."""
    clipped, known = ctx.modules_in(event.target)
    modules, complete = ctx.parameters_of(optimizer)
    if not (clipped and known and complete):
        return False
    return all(any(ctx.reaches(owner, module) or ctx.reaches(module, owner) for module in modules) for owner in clipped)
