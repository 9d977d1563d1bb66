"""The learning rate that the optimizer began with, logged in a loop in which a scheduler changes it.

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
What is logged before or after the loop; rates that the code also sets by hand; lines that log the rate in use beside
the one it began with; texts that do not speak of a learning rate, such as the name of a file.

## Fix (safe)
Logs the rate in the optimizer's first group, where the optimizer has a name at that place: only what is logged changes.

## On real code
276 public repositories: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Context,
    Edits,
    Finding,
    Loop,
    Program,
    Rule,
    SchedulerCreated,
    SchedulerStep,
    Site,
    is_bound_at,
    replace_range,
)

_IN_USE = frozenset(("param_groups", "get_last_lr", "get_lr"))


class ConstantLrLogged(Rule):
    code = "DL314"
    name = "constant-lr-logged"
    category = "suspicious"
    severity = "info"
    triggers = (("lr_scheduler",), ("step",))
    fix_safety = "safe"
    references = ("https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        made = [event for event in ctx.all_of(SchedulerCreated) if isinstance(event, SchedulerCreated)]
        reported: set[int] = set()
        for event in ctx.all_of(SchedulerStep):
            creation = next((each for each in made if ctx.is_same(each.scheduler, event.scheduler)), None)
            rate = ctx.rate_as_written(creation.optimizer) if creation is not None else None
            if creation is None or rate is None or rate[0].isdigit():
                continue
            for loop in ctx.loops_around(event):
                for place in _logged_in(loop, rate, ctx):
                    if id(place.node) not in reported:
                        reported.add(id(place.node))
                        yield self._report(place, event, creation, ctx)

    def _report(self, place: Site, step: SchedulerStep, made: SchedulerCreated, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            place,
            "the rate that is logged is the one the optimizer began with, and the scheduler changes it",
            on=[made, step],
            effect="the log shows the same number all the time, whatever the schedule does",
            help='log `optimizer.param_groups[0]["lr"]` or `scheduler.get_last_lr()`',
            trace=[(made.site, "the scheduler is made here"), (step.site, "and changes the rate here")],
            fix=("Log the rate in use", _in_use(place, made, ctx)),
        )


def _logged_in(loop: Loop, rate: str, ctx: Context) -> Iterator[Site]:
    """Where a loop logs a rate as it is written, by calls that speak of a learning rate; nowhere if it sets that."""
    nodes = list(ast.walk(loop.site.node))
    stored = (node for node in nodes if isinstance(node, ast.Name | ast.Attribute | ast.Subscript))
    if any(isinstance(node.ctx, ast.Store) and ast.unparse(node) == rate for node in stored):
        return
    for call in nodes:
        if not isinstance(call, ast.Call) or not ctx.speaks_of("logging", ast.unparse(call.func)):
            continue
        inside = [node for given in (*call.args, *call.keywords) for node in ast.walk(given)]
        texts = [node.value for node in inside if isinstance(node, ast.Constant) and isinstance(node.value, str)]
        if any(getattr(node, "attr", "") in _IN_USE for node in inside) or not ctx.speaks_of("learning-rate", *texts):
            continue
        shown = (node for node in inside if isinstance(node, ast.Name | ast.Attribute | ast.Subscript))
        yield from (Site(loop.site.module, node) for node in shown if ast.unparse(node) == rate)


def _in_use(place: Site, made: SchedulerCreated, ctx: Context) -> Edits:
    optimizer = made.optimizer
    name = ctx.name_of(optimizer) if optimizer is not None else ""
    if optimizer is None or not is_bound_at(place, name, optimizer.site):
        return Edits()
    return replace_range(place, f'{name}.param_groups[0]["lr"]')
