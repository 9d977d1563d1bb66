"""An optimizer that steps between the forward and the backward pass of a batch.

The step finds no gradients, or those of the batch before. With the gradients cleared at the start of each iteration,
which sets them to `None`, nothing is ever trained, and no error says so.

Measured on torch 2.13 (two layers, 200 steps, SGD, Adam and AdamW): with `zero_grad`, forward, `step`, `backward` no
weight moves in any of 200 steps, and the loss rests at 1.647 instead of .290. Where the gradients are kept, or set to
zeros, torch raises, as the step changes weights that the backward pass needs; with a single layer it does not. It also
raises where a critic steps after its own backward pass, and the loss of the generator, from the same scores, goes back
through it: `one of the variables needed for gradient computation has been modified by an inplace operation`.

## Bad
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        optimizer.step()
        loss.backward()

## Good
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()

## Not reported
Steps at the start of an iteration, before the forward pass, which use the gradients of the one before; loops with
another backward pass before the step, unless the later one goes on through the network that was stepped to another one;
loops with a step after the backward pass; optimizers of other networks; steps with a closure; loops that a framework
runs, and code that cannot be followed and gets the loss, the model or the optimizer.

## Fix (unsafe)
Moves the step behind the backward pass, where both stand in one block. Unsafe because it changes training, as it
should.

## On real code
276 public repositories: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import (
    Backward,
    Context,
    Event,
    Finding,
    Guards,
    ModelForward,
    OpaqueCall,
    OptimizerStep,
    Rule,
    assumed_under,
    move_after,
)

_CHECKED = "1.5"  # the release of torch from which on a changed weight is noticed

# ------------------------------------------------------------------------------------------------- excuses


def has_gradients_already(step: OptimizerStep, backward: Backward, ctx: Context) -> bool:
    """another backward pass, or code that may be one, comes first; what the step changes, the later one does without"""
    if _through_changed(step, backward, ctx):
        return False
    return any(
        isinstance(event, Backward) or (isinstance(event, OpaqueCall) and _may_go_backward(event, step, backward, ctx))
        for event in _iteration_of(step, ctx)
        if ctx.position(event) < ctx.position(step)
    )


def steps_afterwards(step: OptimizerStep, backward: Backward, ctx: Context) -> bool:
    """a step comes after the backward pass, too, or code that may take one"""
    later = (event for event in _iteration_of(step, ctx) if ctx.position(event) > ctx.position(backward))
    return any(
        (isinstance(event, OptimizerStep) and ctx.is_same(event.optimizer, step.optimizer))
        or (isinstance(event, OpaqueCall) and _may_go_backward(event, step, backward, ctx))
        for event in later
    )


class StepBeforeBackward(Rule):
    code = "DL204"
    name = "step-before-backward"
    category = "correctness"
    severity = "error"
    triggers = (("backward",), ("step",))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/optim.html#taking-an-optimization-step",)
    excuses = (has_gradients_already, steps_afterwards)

    def on_backward(self, event: Backward, ctx: Context) -> Iterator[Finding]:
        if event.loss is None or ctx.is_managed(event) or not ctx.loops_around(event):
            return
        for step in ctx.steps():
            found = _forward_before(step, event, ctx) if ctx.same_turn(step, event) else None
            if found is not None and not ctx.excused(self, step, event):
                yield self._report(step, *found, event, ctx)

    def _report(
        self, step: OptimizerStep, guards: Guards, forward: ModelForward, backward: Backward, ctx: Context
    ) -> Finding:
        name = ctx.called(step.optimizer, "optimizer")
        if _through_changed(step, backward, ctx):
            return self._report_changed(name, step, guards, forward, backward, ctx)
        return ctx.finding(
            self,
            step,
            f"{name} steps before the backward pass of the same batch",
            on=[forward, backward],
            assuming=assumed_under(guards),
            effect="the step finds no gradients, or those of the batch before; without any, nothing is trained",
            help="call `backward` of the loss before the step",
            trace=[
                (forward.site, "the forward pass of the batch"),
                (step.site, "the step comes first"),
                (backward.site, "and the gradients after it"),
            ],
            fix=("Step after the backward pass", move_after(step.site, backward.site)),
        )

    def _report_changed(
        self, name: str, step: OptimizerStep, guards: Guards, forward: ModelForward, backward: Backward, ctx: Context
    ) -> Finding:
        return ctx.finding(
            self,
            step,
            f"{name} changes weights that a later backward pass still needs",
            on=[forward, backward],
            assuming=[*assumed_under(guards), *ctx.assumed_version("torch", _CHECKED)],
            effect="torch raises a RuntimeError in that pass: they were modified by an inplace operation",
            help="compute the second loss after the step, from another forward pass",
            trace=[
                (forward.site, "the forward pass, with the weights as they were"),
                (step.site, "they are changed here"),
                (backward.site, "and gradients go back through them"),
            ],
        )


def _through_changed(step: OptimizerStep, backward: Backward, ctx: Context) -> bool:
    """Whether a loss goes back through a network that a step has changed after another backward pass, and beyond it.

    To go beyond a layer takes its weights, and torch refuses weights that are others than those of the forward pass.
    """
    is_second = any(
        isinstance(event, Backward) and ctx.position(event) < ctx.position(step) for event in _iteration_of(step, ctx)
    )
    found = _forward_before(step, backward, ctx) if is_second and ctx.may_run_with("torch", _CHECKED) else None
    if found is None or backward.loss is None:
        return False
    behind = {id(call): call for _, call in ctx.calls_behind(backward.loss)}
    judged = behind[id(found[1].result)]
    given = [source for each in judged.inputs[1:] for source in ctx.sources(each)]
    return any(source is not judged and id(source) in behind for source in given)


def _iteration_of(step: OptimizerStep, ctx: Context) -> list[Event]:
    """What happens in an iteration of the loop around a step, in order."""
    return ctx.beside(step, ctx.loops_around(step)[0])


def _forward_before(step: OptimizerStep, backward: Backward, ctx: Context) -> tuple[Guards, ModelForward] | None:
    """The call of a network of the optimizer, before its step, from which the loss of a later backward pass comes."""
    if backward.loss is None or not ctx.position(step) < ctx.position(backward):
        return None
    modules, _ = ctx.parameters_of(step.optimizer)
    behind = {id(call): guards for guards, call in ctx.calls_behind(backward.loss)}
    for event in _iteration_of(step, ctx):
        if isinstance(event, ModelForward) and id(event.result) in behind and ctx.position(event) < ctx.position(step):
            owners = ctx.objects(event.model)
            if any(ctx.reaches(owner, each) or ctx.reaches(each, owner) for owner in owners for each in modules):
                return behind[id(event.result)], event
    return None


def _may_go_backward(call: OpaqueCall, step: OptimizerStep, backward: Backward, ctx: Context) -> bool:
    return ctx.opaque_to_gradients(call, step.optimizer) or any(value is backward.loss for value in call.values)
