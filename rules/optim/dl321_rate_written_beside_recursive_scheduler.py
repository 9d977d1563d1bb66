"""A learning rate that code writes in each iteration, beside a scheduler that goes on from the rate it finds.

Most schedulers of torch multiply the rate in the optimizer by a factor in each step. What they have done is gone as
soon as code writes a rate of its own: the schedule that was configured never happens, and nothing says so.

Measured on torch 2.13 (`StepLR` by a tenth every three epochs, beside a rate written as .1 times .97 to the power of
the epoch): after ten epochs the rate is .076, as if there were no scheduler, instead of .0001.

## Bad
    scheduler = optim.lr_scheduler.StepLR(optimizer, 30)
    for epoch in range(100):
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * 0.99**epoch
        train(model, loader, optimizer)
        scheduler.step()

## Good
    scheduler = optim.lr_scheduler.StepLR(optimizer, 30)
    for epoch in range(100):
        train(model, loader, optimizer)
        scheduler.step()

## Not reported
Rates that are written under a condition, as in a warm-up; that are multiplied, or computed from the rate in use or by
the scheduler; of one group of several; schedulers that compute each rate anew (`LambdaLR`, `OneCycleLR`), which win.

## On real code
280 public repositories: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Context,
    Finding,
    Instance,
    Loop,
    OptimizerCreated,
    ParametersAdded,
    RateSetting,
    Rule,
    SchedulerCreated,
    SchedulerStep,
    Site,
    Symbol,
    Value,
)

_RECURSIVE = frozenset(
    f"torch.optim.lr_scheduler.{name}"
    for name in ("StepLR", "MultiStepLR", "ExponentialLR", "CosineAnnealingLR", "LinearLR", "ConstantLR",
                 "PolynomialLR", "ReduceLROnPlateau")
)  # fmt: skip
_FROM_RATE_IN_USE = frozenset(("lr", "initial_lr"))
_FROM_SCHEDULER = frozenset(("get_last_lr", "get_lr", "_last_lr"))


def is_conditional(step: SchedulerStep, setting: RateSetting, loop: Loop, ctx: Context) -> bool:
    """the rate is written under a condition, or after something that may leave the function or the iteration"""
    body = loop.site if setting.call is None else _function_around(setting.site, ctx)
    if body is None or _may_be_skipped(setting.site, body, ctx):
        return True
    return setting.call is not None and _may_be_skipped(setting.call, loop.site, ctx)


def is_of_one_group(step: SchedulerStep, setting: RateSetting, loop: Loop, ctx: Context) -> bool:
    """the rate is that of one group of parameters, and there may be others"""
    group = setting.site.node.value if isinstance(setting.site.node, ast.Subscript) else None
    made = [each for each in ctx.all_of(OptimizerCreated, ParametersAdded) if isinstance(each, OptimizerCreated)]
    is_one = len(made) == len(ctx.all_of(OptimizerCreated, ParametersAdded)) and all(
        isinstance(each.parameters, Symbol) and each.parameters.name == "parameters" for each in made
    )
    return isinstance(group, ast.Subscript) and not is_one


def goes_on_from_rate(step: SchedulerStep, setting: RateSetting, loop: Loop, ctx: Context) -> bool:
    """what is written is computed from the rate in use, or by the scheduler"""
    statement = next(iter(ctx.ancestors(setting.site, ast.Assign, ast.AugAssign)), None)
    if not isinstance(statement, ast.Assign):
        return True
    made = list(ctx.made_of(setting.site, statement.value))
    inside = [node for each in made for node in ast.walk(each)]
    keys = {node.value for node in inside if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    names = {node.attr for node in inside if isinstance(node, ast.Attribute)}
    return not keys.isdisjoint(_FROM_RATE_IN_USE) or not names.isdisjoint(_FROM_SCHEDULER)


class RateWrittenBesideRecursiveScheduler(Rule):
    code = "DL321"
    name = "rate-written-beside-recursive-scheduler"
    category = "correctness"
    severity = "warning"
    triggers = (("lr_scheduler",), ("param_groups",), ("step",))
    references = ("https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",)
    excuses = (is_conditional, is_of_one_group, goes_on_from_rate)

    def on_scheduler_step(self, event: SchedulerStep, ctx: Context) -> Iterator[Finding]:
        made = [each for each in ctx.all_of(SchedulerCreated) if isinstance(each, SchedulerCreated)]
        made = [each for each in made if ctx.is_same(each.scheduler, event.scheduler)]
        is_recursive = all(_is_recursive(each.scheduler, ctx) for each in made)
        optimizers = [each.optimizer for each in made if each.optimizer is not None]
        loop = next(iter(ctx.loops_around(event)), None)
        if loop is None or not optimizers or not is_recursive or ctx.is_managed(event):
            return
        setting = ctx.rate_setting(loop, optimizers[0])
        if setting is not None and not ctx.excused(self, event, setting, loop):
            yield self._report(event, setting, made[0], ctx)

    def _report(self, event: SchedulerStep, setting: RateSetting, made: SchedulerCreated, ctx: Context) -> Finding:
        kind, name = ctx.class_name(made.scheduler), ctx.name_of(made.scheduler) or "the scheduler"
        return ctx.finding(
            self,
            event,
            f"the rate that `{kind}` sets is written over in each iteration",
            on=[event, made],
            effect="the schedule that is configured never happens: the rate is what the code writes",
            help=f"remove one of the two: `{name}`, or the line that writes the rate",
            trace=[
                (made.site, "the scheduler is made here"),
                (event.site, "it multiplies the rate that it finds"),
                (setting.site, "and that is written here, each time"),
            ],
        )


def _is_recursive(scheduler: Value, ctx: Context) -> bool:
    options = ctx.objects(scheduler)
    return bool(options) and all(isinstance(each, Instance) and each.library_name in _RECURSIVE for each in options)


def _function_around(site: Site, ctx: Context) -> Site | None:
    function = next(iter(ctx.ancestors(site, ast.FunctionDef)), None)
    return Site(site.module, function) if function is not None else None


def _may_be_skipped(place: Site, body: Site, ctx: Context) -> bool:
    """Whether a place in a loop or function is not always come to."""
    kinds = (ast.If, ast.IfExp, ast.Try, ast.While, ast.Match)
    outside = {id(node) for node in ctx.ancestors(body, *kinds)} | {id(body.node)}
    if any(id(node) not in outside for node in ctx.ancestors(place, *kinds)):
        return True
    leaving = (node for node in ast.walk(body.node) if isinstance(node, ast.Return | ast.Continue | ast.Raise))
    return any(node.lineno < place.line for node in leaving)
