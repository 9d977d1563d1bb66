"""An optimizer that is made again in each batch or epoch, and forgets what it has learned about the gradients.

Momentum, and the averages by which Adam scales each step, live in the optimizer. Made in the loop, it starts with none:
in every batch Adam then goes by the sign of the gradient alone, at full rate, and momentum does nothing. A scheduler,
too, goes on changing the rate of the optimizer that it was made for. Made in every epoch, it is only a note: within
some dozen batches the averages are there again.

Measured on torch 2.13 (a regression on 1,024 samples, batches of 32, 20 epochs, three seeds): Adam has a test error of
.115 to .151 where it is made in every batch instead of .089 to .117; where it is made in every epoch, .090 to .117. SGD
with momentum .062 to .081 (batch) and .064 to .077 (epoch) instead of .066 to .082.

## Bad
    for epoch in range(20):
        for x, y in loader:
            optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()

## Good
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(20):
        for x, y in loader:
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()

## Not reported
Plain SGD, which remembers nothing. Models that are made, or get other weights, in the same loop, as for folds, tasks
and clients; loops over something other than batches, epochs and steps (a `while`, or a
range that counts no clients, tasks or folds); optimizers that a condition makes, or that get a
state back.

## On real code
233 public repositories: 2 findings, both true, of which one is a note: Adam in every batch, so that a schedule written
by hand takes effect, and Adam in every epoch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    Backward,
    Context,
    Finding,
    Instance,
    Loop,
    OptimizerCreated,
    OptimizerStep,
    Program,
    Rule,
    StateRestored,
    Symbol,
    Value,
)

_STATEFUL = ("Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Adagrad", "Adadelta")


# ------------------------------------------------------------------------------------------------- excuses


def gets_a_state(event: OptimizerCreated, loop: Loop, ctx: Context) -> bool:
    """a state is put back in the loop, into the optimizer or the model"""
    restored = (each for each in ctx.all_of(StateRestored) if loop in ctx.loops_around(each))
    modules, _ = ctx.parameters_of(event.optimizer)
    return any(ctx.reaches(each.target, wanted) for each in restored for wanted in (event.optimizer, *modules))


def is_of_another_model(event: OptimizerCreated, loop: Loop, ctx: Context) -> bool:
    """the model is made in the loop, or it is not known where"""
    modules, _ = ctx.parameters_of(event.optimizer)
    return not modules or not all(_is_from_outside(module, event, loop, ctx) for module in modules)


def is_on_purpose(event: OptimizerCreated, loop: Loop, ctx: Context) -> bool:
    """a comment or a name says that the optimizer is to start again"""
    return any(
        word in " ".join(ctx.lines_at(event.site)).lower()
        for word in ("reset", "restart", "fresh", "re-init", "reinit")
    )


class OptimizerRecreatedInLoop(Rule):
    code = "DL217"
    name = "optimizer-recreated-in-loop"
    category = "correctness"
    severity = "warning"
    since = "0.1.0"
    triggers = (("step",), ("backward",))
    confirmable = True
    references = ("https://docs.pytorch.org/docs/stable/optim.html",)
    excuses = (gets_a_state, is_of_another_model, is_on_purpose)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for event in ctx.all_of(OptimizerCreated):
            assert isinstance(event, OptimizerCreated)
            loop = next(iter(ctx.loops_around(event)), None)
            unit = _unit(loop, event, ctx) if loop is not None and _is_stateful(event.optimizer, ctx) else ""
            if loop is not None and unit and not ctx.excused(self, event, loop):
                yield self._report(event, loop, unit, ctx)

    def _report(self, event: OptimizerCreated, loop: Loop, unit: str, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            event,
            f"{ctx.called(event.optimizer, 'optimizer')} is made again in every {unit}",
            on=[event.optimizer],
            effect="it forgets its momentum and its scales each time, and schedulers go on with the first one",
            help="make it before the loop",
            severity="info" if unit == "epoch" else None,
            assuming=[*ctx.assumptions_of(event.parameters), *_left_alone(event, ctx)],
            trace=[(loop.site, f"each iteration is one {unit}")],
        )


def _left_alone(event: OptimizerCreated, ctx: Context) -> Iterator[Assumption]:
    """That no code which could not be followed gives the models other weights in the loop."""
    for module in ctx.parameters_of(event.optimizer)[0]:
        yield from ctx.left_alone(event, module)


def _unit(loop: Loop, event: OptimizerCreated, ctx: Context) -> str:
    """What each iteration of a loop is in which an optimizer is made and takes its steps: a batch or an epoch."""
    steps = [e for e in ctx.all_of(OptimizerStep) if isinstance(e, OptimizerStep) and loop in ctx.loops_around(e)]
    if not any(ctx.is_same(step.optimizer, event.optimizer) for step in steps):
        return ""
    backward = [each for each in ctx.all_of(Backward) if loop in ctx.loops_around(each)]
    unconditional = [each for each in backward if not ctx.conditions_beyond(event, each)]
    for each in unconditional:
        inner = ctx.loops_around(each)[: ctx.loops_around(each).index(loop)]
        if not inner and ctx.goes_over_loader(loop):
            return "batch"
        if not inner and event.frame is each.frame and _is_of_steps(loop, ctx):
            return "step"
        is_epoch = any("epoch" in name.lower() for name in loop.targets)
        if is_epoch and len(inner) == 1 and ctx.goes_over_data(inner[0]):
            return "epoch"
    return ""


def _is_of_steps(loop: Loop, ctx: Context) -> bool:
    """Whether a loop goes on and on, or counts, and what it counts is no model, task or run of its own."""
    if isinstance(loop.site.node, ast.While):
        return True
    head = loop.site.node.iter if isinstance(loop.site.node, ast.For) else None
    counts = isinstance(head, ast.Call) and any(
        isinstance(each, ast.Name) and each.id in ("range", "trange") for each in ast.walk(head)
    )
    return counts and not ctx.speaks_of("run-of-its-own", *loop.targets)


def _is_stateful(optimizer: Value, ctx: Context) -> bool:
    """Whether an optimizer certainly remembers something of the gradients."""
    if not isinstance(optimizer, Instance) or not optimizer.library_name.startswith("torch.optim."):
        return False
    name = optimizer.library_name.rpartition(".")[2]
    momentum = ctx.constant(optimizer.arguments.get(2, "momentum"))
    return name in _STATEFUL or (name == "SGD" and isinstance(momentum, float) and momentum > 0)


def _is_from_outside(module: Value, event: OptimizerCreated, loop: Loop, ctx: Context) -> bool:
    """Whether a module exists before a loop begins."""
    if isinstance(module, Symbol):
        return module.name == "parameter" and event.frame is loop.frame
    site = module.site
    if not isinstance(module, Instance) or site is None or ctx.is_within(site, loop.site):
        return False
    definition = event.frame.definition
    return event.frame is loop.frame or definition is None or not ctx.is_within(site, definition)
