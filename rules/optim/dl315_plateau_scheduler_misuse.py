"""A scheduler that waits for a plateau of the wrong thing.

`ReduceLROnPlateau` has `mode="min"` by default: it takes what grows for what does not get better. Given an accuracy, it
cuts the learning rate again and again as long as training goes well, and leaves it alone when the accuracy falls. The
same happens to a loss with `mode="max"`, and to what Lightning is told to monitor for it. Called without a metric,
`step` raises.

Measured on torch 2.13: given an accuracy that rises, with a patience of 2, the learning rate falls to a hundredth in 8
epochs.

## Bad
    scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=2)
    for epoch in range(epochs):
        train(model, loader, optimizer)
        accuracy = evaluate(model, loader)
        scheduler.step(accuracy)

## Good
    scheduler = optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", patience=2)
    for epoch in range(epochs):
        train(model, loader, optimizer)
        accuracy = evaluate(model, loader)
        scheduler.step(accuracy)

## Not reported
Metrics whose names say nothing, nor that of the function that alone returned them, or too much (`dice_loss` falls,
though a Dice score grows); differences and other things that are computed of a metric, such as `1 - accuracy`; what is
called a loss and adds up a score, also where an option decides it (`total += dice(...)`); modes that are not known, or
that the project's settings may say; calls without a metric of what may be another scheduler, unless a test alone makes
it one, and no other decides over the step.

## Fix (unsafe)
Sets the mode where the scheduler is made. Unsafe because it changes training, as it should.

## On real code
206 public repositories: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Const,
    Context,
    Edits,
    Finding,
    Function,
    Guard,
    Guards,
    Instance,
    Rule,
    SchedulerCreated,
    SchedulerStep,
    Site,
    Symbol,
    Value,
    alternatives,
    assumed_under,
    nodes_of,
    set_argument,
)

_PLATEAU = "torch.optim.lr_scheduler.ReduceLROnPlateau"


def is_turned_round(event: SchedulerStep, metric: Value, ctx: Context) -> bool:
    """the metric is computed of something else, which may turn it round"""
    return any(_may_turn(origin.value) for origin in ctx.origins(metric))


def adds_up_another(event: SchedulerStep, metric: Value, ctx: Context) -> bool:
    """it is computed, perhaps under an option, of what goes the other way by its name: a `val_loss` of Dice scores"""
    name = _telling_name(event, ctx)
    grows = _grows(name, ctx)
    own = ctx.sources_up_to(metric, lambda value: _may_turn(value) or getattr(value, "name", "") == "forward")
    names = [each for value in own for each in (getattr(value, "hint", ""), _function_name(value)) if each]
    return any(ctx.speaks_of("falling-metric", each) if grows else _grows(each, ctx) for each in names)


class PlateauSchedulerMisuse(Rule):
    code = "DL315"
    name = "plateau-scheduler-misuse"
    category = "correctness"
    severity = "warning"
    default = False
    preview = True
    triggers = (("ReduceLROnPlateau",), ("step", "monitor"))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.ReduceLROnPlateau.html",)
    excuses = (is_turned_round, adds_up_another)

    def on_scheduler_step(self, event: SchedulerStep, ctx: Context) -> Iterator[Finding]:
        schedulers = ctx.options_of(event.scheduler)
        plateaus = [
            (guards, each)
            for guards, each in ((one.guards, one.value) for one in schedulers)
            if isinstance(each, Instance) and each.library_name == _PLATEAU and ctx.consistent(guards, event.guards)
        ]
        if len(plateaus) != 1 or not event.arguments.exact or ctx.is_managed(event):
            return
        (guards, plateau), metric = plateaus[0], event.arguments.get(0, "metrics")
        if metric is None and not event.arguments.all() and len(schedulers) == 1 and not plateau.choices:
            yield self._without_metric(event, ctx)
        elif metric is None and not event.arguments.all() and len(schedulers) == 1:
            yield from self._without_metric_as_chosen(event, plateau, ctx)
        elif metric is not None:
            told = [option for more, option in alternatives(metric) if ctx.consistent(guards, more)]
            if len(told) == 1 or len(schedulers) == 1:
                yield from self._with_mode(event, plateau, guards, told[0] if len(told) == 1 else metric, ctx)

    def _without_metric(self, event: SchedulerStep, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            event,
            "`ReduceLROnPlateau.step` is called without a metric",
            severity="info",
            effect="torch raises here",
            help="pass the validation loss",
        )

    def _without_metric_as_chosen(self, event: SchedulerStep, plateau: Instance, ctx: Context) -> Iterator[Finding]:
        """A step that no test decides over, of what a test has made one of several schedulers."""
        own = {guard.key(): guard for guard in _chosen_under(plateau)}
        asked = next((guard for guard in own.values() if guard.holds and guard.node is not None), None)
        others = [guard for guard in event.guards if guard.key() not in own and not _tells_which(guard)]
        if asked is None or asked.node is None or others:
            return
        yield ctx.finding(
            self,
            event,
            "`step` is called without a metric, also where the scheduler is a `ReduceLROnPlateau`",
            on=[event],
            effect=f"torch raises here with `{ast.unparse(asked.node)}`",
            help="pass the validation loss where it is one",
            trace=[
                *([(plateau.site, "the scheduler may be this one")] if plateau.site is not None else []),
                (event.site, "and it is not told of a metric here"),
            ],
        )

    def _with_mode(
        self, event: SchedulerStep, scheduler: Instance, guards: Guards, metric: Value, ctx: Context
    ) -> Iterator[Finding]:
        name = _telling_name(event, ctx)
        if scheduler.arguments.exact and _is_wrong(scheduler, name, ctx) and not ctx.excused(self, event, metric):
            yield self._turned_round(event, scheduler, guards, name, ctx)

    def on_scheduler_created(self, event: SchedulerCreated, ctx: Context) -> Iterator[Finding]:
        """A plateau that Lightning tells what it is to monitor."""
        scheduler, definition = event.scheduler, event.frame.definition
        is_left = ctx.is_managed(event) and event.frame.function == "configure_optimizers"
        if not is_left or definition is None or not isinstance(scheduler, Instance) or not scheduler.arguments.exact:
            return
        monitored = _told_to_monitor(definition.node) if scheduler.library_name == _PLATEAU else set()
        for name in monitored if len(monitored) == 1 else ():
            if _is_wrong(scheduler, name, ctx):
                yield self._turned_round(event, scheduler, event.guards, name, ctx)

    def _turned_round(
        self, event: SchedulerStep | SchedulerCreated, scheduler: Instance, guards: Guards, name: str, ctx: Context
    ) -> Finding:
        given, mode = _mode_of(scheduler, ctx)
        grows = _grows(name, ctx)
        better = "max" if grows else "min"
        edits = set_argument(scheduler.site, "mode", f'"{better}"', position=1) if scheduler.site else Edits()
        return ctx.finding(
            self,
            event,
            f'`{name}` should {"grow" if grows else "fall"}, but the scheduler it is passed to has mode "{mode}"',
            on=[given],
            assuming=assumed_under(guards),
            effect="the learning rate is cut while the metric gets better, and kept when it gets worse",
            help=f'pass `mode="{better}"` where the scheduler is made',
            trace=[
                *([(scheduler.site, f'the mode is "{mode}"')] if scheduler.site is not None else []),
                (event.site, "this is what it is told"),
            ],
            fix=("Turn the mode round", edits),
        )


def _mode_of(scheduler: Instance, ctx: Context) -> tuple[Value | None, object]:
    """What a plateau is given as its mode, and what that is."""
    passed = scheduler.arguments.get(1, "mode")
    given = ctx.as_setting(passed) or passed
    return given, ctx.constant(given) if given is not None else "min"


def _is_wrong(scheduler: Instance, name: str, ctx: Context) -> bool:
    """Whether a plateau waits for a metric of this name to go the wrong way."""
    _, mode = _mode_of(scheduler, ctx)
    return (mode == "min" and _grows(name, ctx)) or (mode == "max" and ctx.speaks_of("falling-metric", name))


def _told_to_monitor(function: ast.AST) -> set[str]:
    """What a function says that is to be monitored: `{"scheduler": scheduler, "monitor": "val_loss"}`."""
    pairs = (pair for each in nodes_of(function).of(ast.Dict) for pair in zip(each.keys, each.values, strict=True))
    told = (value for key, value in pairs if isinstance(key, ast.Constant) and key.value == "monitor")
    return {str(value.value) if isinstance(value, ast.Constant) else "" for value in told}


def _chosen_under(plateau: Instance) -> Iterator[Guard]:
    """The conditions under which a scheduler is the one of several that it is an option of."""
    for choice in plateau.choices:
        for guards, option in choice.options:
            if option is plateau:
                yield from guards


def _tells_which(guard: Guard) -> bool:
    """Whether a condition is no test, but says which one of several values is meant."""
    return guard.node is None and "exception" not in guard.subject


def _telling_name(event: SchedulerStep, ctx: Context) -> str:
    """The name of the metric, or where that says nothing, that of the function that returned it."""
    name = _name_of_metric(event, ctx)
    if ctx.speaks_of("growing-metric", name) or ctx.speaks_of("falling-metric", name):
        return name
    return _function_of_metric(event, ctx)


def _grows(name: str, ctx: Context) -> bool:
    return ctx.speaks_of("growing-metric", name) and not ctx.speaks_of("falling-metric", name)


def _function_name(value: Value) -> str:
    """The name of a function, of the project or a library, whose result something is computed of."""
    if isinstance(value, Function):
        return value.name
    return value.name.rpartition(".")[2] if isinstance(value, Symbol) and "." in value.name[1:] else ""


def _name_of_metric(event: SchedulerStep, ctx: Context) -> str:
    """The name by which the metric is passed: a variable, an attribute, or the key of an entry."""
    call = event.site.node
    node = call.args[0] if isinstance(call, ast.Call) and call.args else None
    if isinstance(node, ast.Name):
        bound = ctx.bound_to(node.id, event.site)
        node = bound if isinstance(bound, ast.IfExp) else node
    if isinstance(node, ast.IfExp):  # for one scheduler of several: `loss if kind == "plateau" else None`
        arms = [each for each in (node.body, node.orelse) if ast.unparse(each) != "None"]
        node = arms[0] if len(arms) == 1 else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("item", "mean"):
        node = node.func.value
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        return node.slice.value
    return getattr(node, "attr", getattr(node, "id", "")) if isinstance(node, ast.Name | ast.Attribute) else ""


def _function_of_metric(event: SchedulerStep, ctx: Context) -> str:
    """The name of the function that the variable was assigned a result of: ``accuracy`` in ``va = accuracy(model)``."""
    call = event.site.node
    node = call.args[0] if isinstance(call, ast.Call) and call.args else None
    bound = ctx.bound_to(node.id, event.site) if isinstance(node, ast.Name) else None
    if node is None or not isinstance(bound, ast.Call):
        return ""
    assigned = next(iter(ctx.ancestors(Site(event.site.module, bound), ast.Assign)), None)
    targets = assigned.targets if isinstance(assigned, ast.Assign) and assigned.value is bound else []
    if [ast.unparse(each) for each in targets] != [ast.unparse(node)]:
        return ""  # one of several results
    function = bound.func
    return getattr(function, "attr", getattr(function, "id", ""))


def _may_turn(value: Value) -> bool:
    """``1 - accuracy``, ``-accuracy`` and ``1 / accuracy``; a mean, ``total / count``, does not."""
    if not isinstance(value, Symbol):
        return False
    return value.name in ("-", "negative", ".neg", "**") or (value.name == "/" and isinstance(value.inputs[0], Const))
