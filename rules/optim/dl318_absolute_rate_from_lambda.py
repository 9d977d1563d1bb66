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
their own; functions that divide by the rate, that name another one, or that add something to it which is no lower rate
(`low + (lr - low) * part` goes down to one); functions that are not written in the project.

## On real code
105 public repositories: no finding, after two that were false: groups of parameters with rates of their own.
"""

from __future__ import annotations

import ast
from collections import Counter
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
    """Whether all that a function returns is made of a rate, which is nowhere divided by."""
    node = function.node
    own = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
    bound = _bound_once(node)
    results = [node.body] if isinstance(node.body, ast.expr) else [each.value for each in _returns(node)]
    if not results or None in results or not own.isdisjoint(_names_written(ast.parse(rate))):
        return False
    divisors = [n.right for n in ast.walk(node) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
    if any(rate in {ast.unparse(part) for part in ast.walk(each) if isinstance(part, ast.expr)} for each in divisors):
        return False
    return all(_is_of_rate(result, rate, bound) for result in results if result is not None)


def _is_of_rate(node: ast.expr, rate: str, bound: dict[str, ast.expr]) -> bool:
    """Whether an expression is a rate times something, the difference of one and something, or goes from one to it."""
    if ast.unparse(node) == rate:
        return True
    if isinstance(node, ast.Name) and node.id in bound:
        return _is_of_rate(bound[node.id], rate, {name: each for name, each in bound.items() if name != node.id})
    if isinstance(node, ast.IfExp):
        return _is_of_rate(node.body, rate, bound) and _is_of_rate(node.orelse, rate, bound)
    if isinstance(node, ast.Call):
        is_one_of = isinstance(node.func, ast.Name) and node.func.id in ("max", "min", "float")
        return is_one_of and any(_is_of_rate(each, rate, bound) for each in node.args)
    if not isinstance(node, ast.BinOp):
        return False
    left, right = (_is_of_rate(each, rate, bound) for each in (node.left, node.right))
    if isinstance(node.op, ast.Mult):
        return left or right
    if isinstance(node.op, ast.Div | ast.Sub):
        return left
    if not isinstance(node.op, ast.Add):
        return False
    return (left or _is_end_of(node.left, node.right)) and (right or _is_end_of(node.right, node.left))


def _is_end_of(end: ast.expr, way: ast.expr) -> bool:
    """Whether a way leads to or from one end: that of `low + (high - low) * part` to `low`."""
    return any(
        isinstance(each, ast.BinOp) and isinstance(each.op, ast.Sub) and ast.dump(each.right) == ast.dump(end)
        for each in ast.walk(way)
    )


def _bound_once(function: ast.AST) -> dict[str, ast.expr]:
    """The variables that a function gives one value, with that."""
    stored = Counter(n.id for n in ast.walk(function) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))
    single = (each for each in ast.walk(function) if isinstance(each, ast.Assign) and len(each.targets) == 1)
    return {
        each.targets[0].id: each.value
        for each in single
        if isinstance(each.targets[0], ast.Name) and stored[each.targets[0].id] == 1
    }


def _returns(function: ast.AST) -> Iterator[ast.Return]:
    return (each for each in ast.walk(function) if isinstance(each, ast.Return))


def _names_written(node: ast.AST) -> set[str]:
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
