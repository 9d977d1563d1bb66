"""`get_lr` of a scheduler, read as if it were the learning rate in use.

`get_lr` is the step of the recursion by which a scheduler computes its next rate, and says nothing outside of it. The
rate in use is in `get_last_lr()`, or in the parameter groups of the optimizer.

Measured on torch 2.13: for a rate of 1.0 `CosineAnnealingLR.get_lr` gives 1.0718, for one of .325 `LinearLR` gives
1.0563, `StepLR` .01 right after a drop to .1, and `ConstantLR` twice the rate; `SequentialLR`, `ChainedScheduler` and
`ReduceLROnPlateau` raise. `get_last_lr` is right for all 15 schedulers.

## Bad
    scheduler = optim.lr_scheduler.StepLR(optimizer, 10)
    for epoch in range(epochs):
        train(model, loader, optimizer)
        scheduler.step()
        print(scheduler.get_lr())

## Good
    scheduler = optim.lr_scheduler.StepLR(optimizer, 10)
    for epoch in range(epochs):
        train(model, loader, optimizer)
        scheduler.step()
        print(scheduler.get_last_lr())

## Not reported
Schedulers whose `get_lr` does give the rate in use (`LambdaLR`, `OneCycleLR`, `CyclicLR`,
`CosineAnnealingWarmRestarts`); schedulers of other libraries and of the project, which may define it in their own way,
and what is not known to be a scheduler of torch; the `get_lr` of a scheduler that hands over to another one, or that
takes no step in the function that makes it; code for torch before 1.4, which has no `get_last_lr`. A rate that is only
printed or logged, or that nobody reads, is a note.

## Fix (safe)
Calls `get_last_lr`: only what is logged changes.

## On real code
95 public repositories: 9 findings in 2 of them, all true; eight print the rate where it has just been cut. In 594
others 13: 8 true, 3 false (a scheduler that takes no step there, one that is just past a milestone) and 2 doubtful, of
schedules whose `get_lr` happens to be right.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Context, Finding, LibraryCall, Rule, SchedulerStep, Site, Value, rename_attribute

_SINCE = "1.4"  # whose schedulers have `get_last_lr`
_TORCH = "torch.optim.lr_scheduler."
_RIGHT = tuple(f"{_TORCH}{name}." for name in ("LambdaLR", "OneCycleLR", "CyclicLR", "CosineAnnealingWarmRestarts"))


def never_steps(event: LibraryCall, scheduler: Value, ctx: Context) -> bool:
    """it is a variable of the function, and takes no step there: it stays at its first rate, which it tells"""
    around = next(ctx.ancestors(event.site, ast.FunctionDef), None)
    if around is None or scheduler.site is None or around not in ctx.ancestors(scheduler.site, ast.FunctionDef):
        return False
    return not any(ctx.is_same(step.scheduler, scheduler) for step in ctx.all_of(SchedulerStep))


class GetLrForLogging(Rule):
    code = "DL313"
    name = "get-lr-for-logging"
    category = "correctness"
    severity = "warning"
    triggers = (("get_lr",), ("lr_scheduler",))
    confirmable = True
    fix_safety = "safe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.LRScheduler.html",)
    excuses = (never_steps,)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if not event.name.startswith(_TORCH) or not event.name.endswith(".get_lr") or event.name.startswith(_RIGHT):
            return
        if ctx.runs_before("torch", _SINCE) or event.frame.function == "get_lr":  # a scheduler asks the one after it
            return
        scheduler, call = event.arguments.positional[0], event.site.node
        if ctx.excused(self, event, scheduler):
            return
        is_shown = ctx.is_only_shown(event.site)
        function = Site(event.site.module, call.func) if isinstance(call, ast.Call) else event.site
        yield ctx.finding(
            self,
            event,
            "`get_lr` is no learning rate in use: it is a step of the scheduler's own computation",
            on=[scheduler],
            assuming=[*ctx.assumed_use(event.result, "it"), *ctx.assumed_version("torch", _SINCE)],
            effect="what is logged is another rate, by up to a factor of ten"
            if is_shown
            else "what goes by it has another rate than is in use, by up to a factor of ten",
            help="call `get_last_lr`",
            trace=[
                *([(scheduler.site, "the scheduler is made here")] if scheduler.site is not None else []),
                (event.site, "and asked for its next rate"),
            ],
            fix=("Call `get_last_lr`", rename_attribute(function, "get_last_lr")),
            severity="info" if is_shown else None,
        )
