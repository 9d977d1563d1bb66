"""The learning rate that the optimizer began with, logged in a loop that changes it.

The log shows a flat line. Whoever looks there for the reason of a jump or a plateau concludes that the schedule does
nothing, or that the rate cannot be it.

Measured on torch 2.13 (a cosine from .1 over 10 epochs): the log has .1 ten times, while the rate in use falls to .002;
`optimizer.param_groups[0]["lr"]` and `get_last_lr()` are right for all 15 schedulers.

## Bad
    optimizer = optim.SGD(model.parameters(), lr=args.lr)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    for epoch in range(10):
        train(model, loader, optimizer)
        scheduler.step()
        print("lr", args.lr)

## Good
    optimizer = optim.SGD(model.parameters(), lr=args.lr)
    scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    for epoch in range(10):
        train(model, loader, optimizer)
        scheduler.step()
        print("lr", optimizer.param_groups[0]["lr"])

## Not reported
What is logged before or after the loop; variables that get another value in the loop; lines that log the rate in use
beside the one it began with; texts that do not speak of a learning rate, such as the name of a file.

## Fix (safe)
Logs the rate in the optimizer's first group, where the optimizer has a name at that place: only what is logged changes.

## On real code
276 public repositories: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from dllint.api import (
    Context,
    Edits,
    Event,
    Finding,
    Loop,
    OptimizerCreated,
    OptimizerStep,
    Program,
    Rule,
    SchedulerCreated,
    SchedulerStep,
    Site,
    Value,
    is_bound_at,
    replace_range,
)

_IN_USE = frozenset(("param_groups", "get_last_lr", "get_lr"))


class ConstantLrLogged(Rule):
    code = "DL314"
    name = "constant-lr-logged"
    category = "suspicious"
    severity = "info"
    triggers = (("lr_scheduler", "param_groups"), ("step",))
    fix_safety = "safe"
    references = ("https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for change in _rate_changes(ctx):
            for rate in _names_of_rate(change, ctx):
                for place in _logged_in(change.loop, rate, ctx):
                    yield self._report(place, change, ctx)

    def _report(self, place: Site, change: _RateChange, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            place,
            "the rate that is logged is the one the optimizer began with, and it changes on the way",
            on=[change.made, change.optimizer, change.event],
            effect="the log shows the same number all the time, whatever the schedule does",
            help='log `optimizer.param_groups[0]["lr"]` or `scheduler.get_last_lr()`',
            trace=[(change.made.site, "the optimizer is made here"), (change.site, "and its rate is changed here")],
            fix=("Log the rate in use", _in_use(place, change.made.optimizer, ctx)),
        )


@dataclass(frozen=True)
class _RateChange:
    """A loop in which the rate of an optimizer is changed, where that happens, and an event that says so."""

    optimizer: Value
    made: OptimizerCreated
    loop: Loop
    site: Site
    event: Event


def _rate_changes(ctx: Context) -> Iterator[_RateChange]:
    """What changes rates: the steps of schedulers, and code that writes them into the groups of an optimizer."""
    schedulers = [event for event in ctx.all_of(SchedulerCreated) if isinstance(event, SchedulerCreated)]
    optimizers = [event for event in ctx.all_of(OptimizerCreated) if isinstance(event, OptimizerCreated)]
    for event in ctx.all_of(SchedulerStep, OptimizerStep):
        if isinstance(event, SchedulerStep):
            scheduler = next((each for each in schedulers if ctx.is_same(each.scheduler, event.scheduler)), None)
            optimizer = scheduler.optimizer if scheduler is not None else None
        else:
            optimizer = getattr(event, "optimizer", None)
        made = next((each for each in optimizers if _is_made_for(each, optimizer, event, ctx)), None)
        if made is None or optimizer is None:
            continue
        for loop in ctx.loops_around(event):
            setting = ctx.rate_setting(loop, optimizer) if isinstance(event, OptimizerStep) else None
            site = setting.site if setting is not None else event.site if isinstance(event, SchedulerStep) else None
            if site is not None:
                yield _RateChange(optimizer, made, loop, site, event)


def _is_made_for(made: OptimizerCreated, optimizer: Value | None, event: Event, ctx: Context) -> bool:
    return optimizer is not None and ctx.is_same(made.optimizer, optimizer) and not ctx.exclusive(made, event)


def _names_of_rate(change: _RateChange, ctx: Context) -> Iterator[str]:
    """What the rate that the optimizer began with is called in a loop; a plain name means nothing elsewhere."""
    for frame, name in ctx.rate_names(change.made):
        if frame is change.loop.frame or not name.isidentifier():
            yield name


def _logged_in(loop: Loop, rate: str, ctx: Context) -> Iterator[Site]:
    """Where a loop logs a rate as it is written, by calls that speak of a learning rate; nowhere if it sets that."""
    nodes = list(ast.walk(loop.site.node))
    stored = (node for node in nodes if isinstance(node, ast.Name | ast.Attribute | ast.Subscript))
    if any(isinstance(node.ctx, ast.Store) and ast.unparse(node) == rate for node in stored):
        return
    calls = [node for node in nodes if isinstance(node, ast.Call) and ctx.speaks_of("logging", ast.unparse(node.func))]
    given = [argument for call in calls for argument in (*call.args, *(each.value for each in call.keywords))]
    names = {node.id for node in given if isinstance(node, ast.Name)}
    kept = [
        node for node in nodes if isinstance(node, ast.Assign) and any(ast.unparse(t) in names for t in node.targets)
    ]
    for shown in (*calls, *(node.value for node in kept if isinstance(node.value, ast.Dict))):
        inside = list(ast.walk(shown))
        texts = [node.value for node in inside if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        if any(getattr(node, "attr", "") in _IN_USE for node in inside) or not ctx.speaks_of("learning-rate", *texts):
            continue
        read = (node for node in inside if isinstance(node, ast.Name | ast.Attribute | ast.Subscript))
        yield from (Site(loop.site.module, node) for node in read if ast.unparse(node) == rate)


def _in_use(place: Site, optimizer: Value, ctx: Context) -> Edits:
    """The rate of the first group, with other quotes than those of an f-string around it: older Pythons want that."""
    name, quote = ctx.name_of(optimizer), '"'
    for text in ctx.ancestors(place, ast.JoinedStr):
        quote = "'" if ctx.source_of(Site(place.module, text)).lstrip("fFrR").startswith('"') else '"'
    written = f"{name}.param_groups[0][{quote}lr{quote}]"
    return replace_range(place, written) if is_bound_at(place, name, optimizer.site) else Edits()
