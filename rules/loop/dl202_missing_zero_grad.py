"""Gradients that are never cleared between optimizer steps.

`backward` adds to the gradients that are already there. Without `zero_grad` every step uses the sum over all batches so
far.

Measured on torch 2.13 (2-layer network, 200 steps): with SGD the loss ends at 42.8 instead of 0.29, with momentum at
1e13. With Adam the training loss looks fine or even better, and the test accuracy after 3,000 steps is .785 instead of
.839: the loss curve does not show it.

## Bad
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()

## Good
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()

## Not reported
Loops in which anything clears the gradients: `optimizer.zero_grad()`, `model.zero_grad()`, `p.grad = None`, a closure,
a helper; loops whose optimizer or engine goes into a call that cannot be resolved, or that says by its name that it
clears gradients; gradients with hooks; loops that a framework runs; optimizers that are rebuilt in each iteration; code
without a loop, except the update of a class that keeps its optimizer (an agent's `learn(self, batch)`), where neither
the class nor code that names it clears any.

## Fix (unsafe)
Inserts `optimizer.zero_grad()` before the backward pass, or after the step where that uses the sum of several passes.
Unsafe because it changes training, as it should.

## On real code
742 public repositories: 27 findings in 15 of them, all true: some clear once an epoch or before training, some never,
and some are measurements of speed or memory. In 322 others 7: 4 true, and 3 false in one loop that returns after its
step, which is silent since.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    AttributeAssigned,
    Backward,
    Class,
    Context,
    Edits,
    Finding,
    Instance,
    Loop,
    OpaqueCall,
    OptimizerCreated,
    OptimizerStep,
    Program,
    Rule,
    Site,
    ZeroGrad,
    insert_after,
    insert_before,
    receiver_of,
)

# ------------------------------------------------------------------------------------------------- excuses


def is_run_by_framework(step: OptimizerStep, loop: Loop, ctx: Context) -> bool:
    """a framework runs the loop, or the engine that goes backward clears them"""
    engines = (event for event in ctx.beside(step, loop) if isinstance(event, Backward))
    return ctx.is_managed(step) or any(event.via in ("deepspeed", "opaque") for event in engines)


def is_cleared(step: OptimizerStep, loop: Loop, ctx: Context) -> bool:
    """something in the loop clears the gradients, or puts others in their place: `shared._grad = own.grad`"""
    beside = ctx.beside(step, loop)
    clearings = [event.target for event in beside if isinstance(event, ZeroGrad)]
    clearings += [e.target for e in beside if isinstance(e, AttributeAssigned) and e.attribute == "_grad"]
    return any(ctx.may_concern(target, step.optimizer) for target in clearings)


def is_rebuilt(step: OptimizerStep, loop: Loop, ctx: Context) -> bool:
    """the optimizer is built in each iteration"""
    made = (event for event in ctx.beside(step, loop) if isinstance(event, OptimizerCreated))
    return any(ctx.is_same(event.optimizer, step.optimizer) for event in made)


def has_no_backward(step: OptimizerStep, loop: Loop, ctx: Context) -> bool:
    """no backward pass happens in a run in which the step does"""
    return not any(isinstance(event, Backward) for event in ctx.beside(step, loop))


def has_no_gradients(step: OptimizerStep, loop: Loop, ctx: Context) -> bool:
    """what it was given are numbers without gradients: it is there for its schedule"""
    return ctx.trains_nothing(step.optimizer)


def has_hooks(step: OptimizerStep, loop: Loop, ctx: Context) -> bool:
    """a hook may clear the gradients"""
    calls = (event for event in ctx.all_of(OpaqueCall) if event.name.startswith("register_"))
    return any(ctx.opaque_to(event, step.optimizer) for event in calls)


def may_be_cleared_out_of_sight(step: OptimizerStep, loop: Loop, ctx: Context) -> bool:
    """a call that could not be followed gets the optimizer, or clears gradients by its name"""
    return any(
        ctx.speaks_of("clearing-gradients", event.name)
        or (ctx.opaque_to(event, step.optimizer) and not _is_harmless(event, ctx))
        for event in ctx.beside(step, loop)
        if isinstance(event, OpaqueCall)
    )


def may_be_cleared_by_callers(step: OptimizerStep, loop: Loop, ctx: Context) -> bool:
    """the class of an update that is called from elsewhere, or one who names it, clears gradients"""
    owner = loop.frame.receiver.cls if isinstance(loop.frame.receiver, Instance) else None
    if loop.kind != "calls" or not isinstance(owner, Class):
        return False
    return any(_clears(node, ctx) for node in ctx.code_around(owner))


def _clears(node: ast.AST, ctx: Context) -> bool:
    """``optimizer.zero_grad()`` or what is called like it, ``p.grad = None``, ``p.grad.zero_()``."""
    if isinstance(node, ast.Assign):
        return getattr(node.value, "value", ...) is None and any(getattr(t, "attr", "") == "grad" for t in node.targets)
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return ctx.speaks_of("clearing-gradients", name) or (name == "zero_" and ".grad" in receiver_of(node))


class MissingZeroGrad(Rule):
    code = "DL202"
    name = "missing-zero-grad"
    category = "correctness"
    severity = "error"
    triggers = (("backward", "manual_backward"), ("step",))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html",)
    excuses = (
        is_run_by_framework,
        is_cleared,
        is_rebuilt,
        has_no_backward,
        has_no_gradients,
        has_hooks,
        may_be_cleared_out_of_sight,
        may_be_cleared_by_callers,
    )

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        wrapped: set[tuple[int, ...]] = set()  # loops, and the optimizers that a helper steps in them
        for step in ctx.steps():
            loop = ctx.training_loop(step)
            if loop is None or ctx.excused(self, step, loop):
                continue
            key = (id(loop), *map(id, ctx.objects(step.optimizer)))
            if step.frame is loop.frame or key not in wrapped:
                yield self._report(step, loop, ctx)
            if step.frame is not loop.frame:
                wrapped.add(key)

    def _report(self, step: OptimizerStep, loop: Loop, ctx: Context) -> Finding:
        optimizer = ctx.called(step.optimizer, "optimizer")
        unit = "method" if loop.kind == "calls" else "loop"
        backward = next(event for event in ctx.beside(step, loop) if isinstance(event, Backward))
        return ctx.finding(
            self,
            step,
            f"the gradients of {optimizer} are never cleared in this {unit}",
            effect="each step uses the sum of the gradients of all batches so far: SGD diverges, Adam generalizes "
            "worse while its loss looks fine",
            help=f"call `zero_grad()` of {optimizer} in each iteration, before the backward pass or after the step",
            trace=[
                (loop.site, "in this loop" if loop.kind != "calls" else "each time that this is called"),
                (backward.site, "gradients are added to what is there"),
                (step.site, "and used"),
            ],
            fix=("Clear the gradients", _clear(step, loop, ctx)),
        )


def _is_harmless(event: OpaqueCall, ctx: Context) -> bool:
    """Whether an unresolved call surely clears nothing: a scheduler's, or one that saves or logs by its name."""
    of_scheduler = event.receiver is not None and ctx.guessed_role(event.receiver) == "scheduler"
    return of_scheduler or ctx.speaks_of("harmless-call", event.name)


def _clear(step: OptimizerStep, loop: Loop, ctx: Context) -> Edits:
    """Clear before the first backward pass that the step uses; after the step where several of them add up."""
    optimizer = _optimizer_text(step, ctx)
    since = ctx.since_last(OptimizerStep, before=step, within=loop)
    used = [event for event in since if isinstance(event, Backward)]
    if not optimizer or (step.frame is not loop.frame and any(each.frame is not step.frame for each in used)):
        return Edits()  # or two methods of a wrapper, which others may call in another way
    call = step.site.node
    is_closure = step.scaler is None and isinstance(call, ast.Call) and bool(call.args)
    if used and (ctx.same_turn(used[0], step) or is_closure):
        return insert_before(used[0].site, f"{optimizer}.zero_grad()")
    return insert_after(step.site, f"{optimizer}.zero_grad()")


def _optimizer_text(step: OptimizerStep, ctx: Context) -> str:
    """The optimizer in ``optimizer.step()`` or ``scaler.step(optimizer)``, as it is written."""
    call = step.site.node
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "step":
        return ""
    named = call.func.value if step.scaler is None else call.args[0] if call.args else None
    return ctx.source_of(Site(step.site.module, named)) if isinstance(named, ast.Name | ast.Attribute) else ""
