"""A schedule that multiplies the learning rate by itself: `LambdaLR` with a function that returns a rate.

`LambdaLR` multiplies the rate of the optimizer by what the function returns. A function that returns `lr * 0.95**epoch`
makes that `lr * lr * 0.95**epoch`: of 1e-3 it makes 1e-6, and nothing is learned.

Measured on torch 2.13: an optimizer with `lr=1e-3` and `LambdaLR(optimizer, lambda e: 1e-3 * 0.95**e)` begins with a
rate of 1e-6.

## Bad
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: args.lr * 0.95**epoch)

## Good
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.95**epoch)

## Not reported
Optimizers with a rate of 1, for which the function is the rate, or with groups of parameters, which may have rates of
their own; functions that divide by the rate, or that name another
one; functions that are not written in the project.

## On real code
105 public repositories: no finding, after two that were false: groups of parameters with rates of their own.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Context, Finding, Function, Instance, Items, Rule, SchedulerCreated, Value

_SCHEDULER = "torch.optim.lr_scheduler.LambdaLR"


class AbsoluteRateFromLambda(Rule):
    code = "DL318"
    name = "absolute-rate-from-lambda"
    category = "correctness"
    severity = "warning"
    triggers = (("LambdaLR",),)
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.LambdaLR.html",)

    def on_scheduler_created(self, event: SchedulerCreated, ctx: Context) -> Iterator[Finding]:
        scheduler, optimizer = event.scheduler, event.optimizer
        if not isinstance(scheduler, Instance) or scheduler.library_name != _SCHEDULER:
            return
        given = scheduler.arguments.get(1, "lr_lambda")
        for function in given.items if isinstance(given, Items) else (given,):
            rate = ctx.rate_as_written(optimizer)
            if isinstance(function, Function) and rate is not None and _multiplies_by(function, rate):
                yield self._report(event, function, rate, optimizer, ctx)

    def _report(
        self, event: SchedulerCreated, function: Function, rate: str, optimizer: Value | None, ctx: Context
    ) -> Finding:
        assert function.site is not None
        made = (
            [(optimizer.site, f"the rate is `{rate}`")] if optimizer is not None and optimizer.site is not None else []
        )
        return ctx.finding(
            self,
            event,
            f"`LambdaLR` multiplies the rate by what its function returns, and that has `{rate}` in it",
            on=[optimizer, function],
            effect=f"the rate is `{rate}` squared: a thousandth of what was meant, if it is a thousandth",
            help=f"return a factor: leave `{rate}` out of the function",
            trace=[*made, (function.site, "and the function multiplies by it"), (event.site, "as the schedule does")],
        )


def _multiplies_by(function: Function, rate: str) -> bool:
    """Whether all that a function returns is a product with a factor, which is nowhere divided by."""
    body = function.node.body
    results = (
        [body]
        if isinstance(body, ast.expr)
        else [n.value for s in body for n in ast.walk(s) if isinstance(n, ast.Return)]
    )
    if not results or any(result is None for result in results):
        return False
    divisors = [n.right for n in ast.walk(function.node) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
    if any(rate in {ast.unparse(part) for part in ast.walk(each) if isinstance(part, ast.expr)} for each in divisors):
        return False
    return all(rate in _factors(result) for result in results if result is not None)


def _factors(node: ast.expr) -> set[str]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        return _factors(node.left) | _factors(node.right)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _factors(node.left)
    return {ast.unparse(node)}
