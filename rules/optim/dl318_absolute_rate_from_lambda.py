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
(`low + (lr - low) * part` goes down to one); functions that are not written in the project, and what is given to these.

## On real code
105 public repositories: no finding, after two that were false: groups of parameters with rates of their own.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from dllint.api import Context, Finding, Function, Instance, Items, Partial, Rule, SchedulerCreated, Value

_SCHEDULER = "torch.optim.lr_scheduler.LambdaLR"
_MAX_CALLS = 3


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
            if function is not None and rate is not None and _multiplies_by(function, rate, ctx):
                yield self._report(event, function, rate, optimizer, ctx)

    def _report(
        self, event: SchedulerCreated, function: Value, rate: str, optimizer: Value | None, ctx: Context
    ) -> Finding:
        made = (
            [(optimizer.site, f"the rate is `{rate}`")] if optimizer is not None and optimizer.site is not None else []
        )
        multiplied = [(function.site, "and the function multiplies by it")] if function.site is not None else []
        return ctx.finding(
            self,
            event,
            f"`LambdaLR` multiplies the rate by what its function returns, and that has `{rate}` in it",
            on=[optimizer, function],
            effect=f"the rate is `{rate}` squared: a thousandth of what was meant, if it is a thousandth",
            help=f"return a factor: leave `{rate}` out of the function",
            trace=[*made, *multiplied, (event.site, "as the schedule does")],
        )


@dataclass(frozen=True, slots=True)
class _Body:
    """The body of a function, with the texts that are the rate in it, and the functions that lead to it.

    ``written`` is the rate as the optimizer is given it, by which code may divide wherever it stands.
    """

    function: Function
    rates: frozenset[str]
    written: str
    ctx: Context
    callers: tuple[ast.AST, ...] = ()


def _multiplies_by(given: Value | None, rate: str, ctx: Context) -> bool:
    """Whether all that a function, or one with some of its arguments, returns is made of a rate."""
    if isinstance(given, Partial) and isinstance(given.callable, Function) and given.site is not None:
        written = given.site.node
        if not isinstance(written, ast.Call) or not written.args:
            return False
        call = ast.Call(written.args[0], written.args[1:], written.keywords)
        passed = _bound_by_call(call, given.callable)
        same = frozenset(name for name, value in passed.items() if ast.unparse(value) == rate)
        return bool(same) and _returns_rate(_Body(given.callable, same, rate, ctx))
    if not isinstance(given, Function):
        return False
    own = {each.arg for each in ast.walk(given.node.args) if isinstance(each, ast.arg)}
    is_seen = own.isdisjoint(_names_written(ast.parse(rate)))
    return is_seen and _returns_rate(_Body(given, frozenset((rate,)), rate, ctx))


def _returns_rate(body: _Body) -> bool:
    """Whether all that a function returns is made of a rate, or an end of the way to one; it is nowhere divided by."""
    node = body.function.node
    results = [node.body] if isinstance(node.body, ast.expr) else [each.value for each in _returns(node)]
    if not results or None in results:
        return False
    divisors = [n.right for n in ast.walk(node) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
    parts = {ast.unparse(part) for each in divisors for part in ast.walk(each) if isinstance(part, ast.expr)}
    if not parts.isdisjoint((*body.rates, body.written)):
        return False
    bound = _bound_once(node)
    of_rate = [each for each in results if each is not None and _is_of_rate(each, bound, body)]
    others = [each for each in results if each is not None and each not in of_rate]
    return bool(of_rate) and all(any(_is_end_of(each, way) for way in of_rate) for each in others)


def _is_of_rate(node: ast.expr, bound: dict[str, ast.expr], body: _Body) -> bool:
    """Whether an expression is a rate times something, the difference of one and something, or goes from one to it."""
    if ast.unparse(node) in body.rates:
        return True
    if isinstance(node, ast.Name) and node.id in bound:
        return _is_of_rate(bound[node.id], {name: each for name, each in bound.items() if name != node.id}, body)
    if isinstance(node, ast.IfExp):
        return _is_of_rate(node.body, bound, body) and _is_of_rate(node.orelse, bound, body)
    if isinstance(node, ast.Call):
        is_one_of = isinstance(node.func, ast.Name) and node.func.id in ("max", "min", "float")
        if is_one_of:
            return any(_is_of_rate(each, bound, body) for each in node.args)
        return _call_returns_rate(node, bound, body)
    if not isinstance(node, ast.BinOp):
        return False
    left, right = (_is_of_rate(each, bound, body) for each in (node.left, node.right))
    if isinstance(node.op, ast.Mult):
        return left or right
    if isinstance(node.op, ast.Div | ast.Sub):
        return left
    if not isinstance(node.op, ast.Add):
        return False
    return (left or _is_end_of(node.left, node.right)) and (right or _is_end_of(node.right, node.left))


def _call_returns_rate(call: ast.Call, bound: dict[str, ast.expr], body: _Body) -> bool:
    """Whether a call is of another function of the project that is given the rate, and returns what is made of it."""
    called = body.ctx.function_called(call, body.function)
    if called is None or called.node in body.callers or len(body.callers) >= _MAX_CALLS:
        return False
    passed = _bound_by_call(call, called)
    given = frozenset(name for name, value in passed.items() if _is_of_rate(value, bound, body))
    callers = (*body.callers, body.function.node)
    return bool(given) and _returns_rate(_Body(called, given, body.written, body.ctx, callers))


def _bound_by_call(call: ast.Call, function: Function) -> dict[str, ast.expr]:
    """What a call gives the parameters of a function that keep it; nothing where that is not known for each of them."""
    names = [each.arg for each in (*function.node.args.posonlyargs, *function.node.args.args)]
    if function.owner is not None and function.kind != "static":
        names = names[1:]
    if any(isinstance(each, ast.Starred) for each in call.args) or len(call.args) > len(names):
        return {}
    passed = dict(zip(names, call.args, strict=False))
    passed |= {each.arg: each.value for each in call.keywords if each.arg is not None}
    stored = {n.id for n in ast.walk(function.node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return {name: value for name, value in passed.items() if name not in stored}


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
