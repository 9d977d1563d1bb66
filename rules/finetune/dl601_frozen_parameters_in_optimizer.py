"""Parameters that are frozen in the middle of training, but keep moving, because they still have gradients.

An optimizer skips the parameters whose `.grad` is `None`; it does not look at `requires_grad`. Since torch 2.0
`zero_grad` sets gradients to `None`, so a frozen parameter stays where it is. With `zero_grad(set_to_none=False)` the
gradient is a tensor of zeros, and momentum, Adam's averages and weight decay go on moving the parameter. If gradients
are never cleared, its last gradient is applied again and again.

Measured on torch 2.13 (largest change of a frozen weight in the steps after it was frozen): 9.1e-2 with SGD and
momentum, 2.9e-3 with weight decay alone, 3.9e-2 with Adam and AdamW; .16 with plain SGD where gradients are never
cleared. With the default `zero_grad()`, or frozen before the first backward pass, the change is 0 in all optimizers.

## Bad
    optimizer = optim.Adam(model.parameters())
    for epoch in range(epochs):
        if epoch == 5:
            model.body.requires_grad_(False)
        for x, y in loader:
            optimizer.zero_grad(set_to_none=False)
            criterion(model(x), y).backward()
            optimizer.step()

## Good
    optimizer = optim.Adam(model.parameters())
    for epoch in range(epochs):
        if epoch == 5:
            model.body.requires_grad_(False)
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()

## Not reported
What is frozen before the first backward pass or unfrozen before the next step; gradients that are set to `None`; SGD
without momentum and weight decay, for which zeros mean no change; optimizers that are built again after freezing.
An optimizer that is given parameters which were frozen before is harmless, and reported only when the rule is selected
by name.

## Fix (unsafe)
Lets `zero_grad` set gradients to `None` again; unsafe because it changes training, as it should. For parameters that
were frozen before, gives the optimizer only those that are trained; safe, since it changes nothing but the layout of
the optimizer's state.

## On real code
742 public repositories: no finding; hardly anybody freezes in the middle of training and keeps `set_to_none=False`.
Optimizers that are given frozen parameters from the start are reported if the rule is selected by name.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    AttributeAssigned,
    Backward,
    Context,
    Edits,
    Event,
    Finding,
    Fix,
    Guard,
    Instance,
    Loop,
    OpaqueCall,
    OptimizerCreated,
    OptimizerStep,
    Program,
    Rule,
    Site,
    Symbol,
    Value,
    ZeroGrad,
    assumed_under,
    set_argument,
    together,
)

_KINDS = (Backward, ZeroGrad, OptimizerStep, OptimizerCreated, AttributeAssigned, OpaqueCall)


def frozen_from_the_start(
    freeze: AttributeAssigned, changes: list[AttributeAssigned], optimizer: Value, ctx: Context
) -> bool:
    """the parameters are frozen before there is any gradient, in the first iteration if not before"""
    changing = [guard for guard in freeze.guards if guard not in _lasting(freeze, ctx)]
    if changing:
        return any(_holds_at_start(guard) for guard in changing)
    first = next((event for event in ctx.events if event is freeze or isinstance(event, Backward)), None)
    return first is freeze


def frozen_in_turn(freeze: AttributeAssigned, changes: list[AttributeAssigned], optimizer: Value, ctx: Context) -> bool:
    """one helper freezes and unfreezes, as networks that are trained in turn are by a flag"""
    return any(change.site.node is freeze.site.node and ctx.constant(change.value) is not False for change in changes)


def zeros_change_nothing(
    freeze: AttributeAssigned, changes: list[AttributeAssigned], optimizer: Value, ctx: Context
) -> bool:
    """the optimizer has neither momentum nor weight decay, so that a gradient of zeros changes nothing"""
    return bool(_clearings(optimizer, ctx)) and not _has_inertia(optimizer, ctx)


class FrozenParametersInOptimizer(Rule):
    code = "DL601"
    name = "frozen-parameters-in-optimizer"
    category = "correctness"
    severity = "warning"
    triggers = (("requires_grad", "requires_grad_"), ("parameters", "named_parameters"))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html",)

    excuses = (frozen_from_the_start, frozen_in_turn, zeros_change_nothing)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        changes = list(ctx.gradient_switches)
        freezes = [event for event in ctx.freezes if not ctx.is_managed(event)]
        for freeze in freezes:
            for optimizer in ctx.stepped_optimizers():
                finding = self._moving(freeze, changes, optimizer, ctx)
                if finding is not None:
                    yield finding
                    break
        for created in ctx.events if freezes else ():
            if isinstance(created, OptimizerCreated) and not ctx.is_managed(created):
                yield from self._given_frozen(created, changes, ctx)

    def _moving(
        self, freeze: AttributeAssigned, changes: list[AttributeAssigned], optimizer: Value, ctx: Context
    ) -> Finding | None:
        """The finding for parameters that an optimizer moves after they were frozen."""
        if not _has(optimizer, freeze, ctx) or ctx.excused(self, freeze, changes, optimizer):
            return None
        cleared = _clearings(optimizer, ctx)
        step = _step_with_stale_gradient(freeze, changes, optimizer, ctx)
        if step is None or any(_goes_with(event, step, ctx) for event in cleared):
            return None
        name = ctx.called(optimizer, "optimizer")
        return ctx.finding(
            self,
            freeze,
            f"frozen after a backward pass, but {name} keeps moving these parameters",
            on=[step, cleared[0] if cleared else None],
            assuming=assumed_under(_lasting(freeze, ctx)),
            effect="their gradients are zeros, not `None`: momentum, Adam's averages and weight decay still change them"
            if cleared
            else "their last gradients are never cleared, and are applied in every step",
            help=f"call `zero_grad()` of {name} without `set_to_none=False`, so that it skips them",
            trace=[
                (freeze.site, "they are frozen here"),
                *([(cleared[0].site, "their gradients are set to zeros")] if cleared else []),
                (step.site, "and used here"),
            ],
            fix=("Set the gradients to None", _to_none(cleared)),
        )

    def _given_frozen(
        self, created: OptimizerCreated, changes: list[AttributeAssigned], ctx: Context
    ) -> Iterator[Finding]:
        """The finding for an optimizer that is given parameters which were frozen before."""
        given = created.parameters
        if not isinstance(given, Symbol) or given.name != "parameters" or given.site is None:
            return
        mine = [change for change in changes if _has(created.optimizer, change, ctx)]
        before = [change for change in mine if ctx.position(change) < ctx.position(created)]
        if not before or any(ctx.constant(change.value) is not False for change in mine) or _is_conditional(before[0]):
            return
        yield ctx.finding(
            self,
            given.site,
            f"{ctx.called(created.optimizer, 'optimizer')} is given parameters that were frozen before",
            on=[before[0], *ctx.left_alone(created, given.inputs[0])],
            assuming=ctx.assumed_use(created.optimizer, "the optimizer"),
            effect="harmless: their gradients are `None`, and the optimizer skips them",
            help="give it only the parameters with `requires_grad`",
            trace=[(before[0].site, "they are frozen here"), (given.site, "and given to the optimizer")],
            fixes=_give_trained(given.site, ctx),
            severity="info",
            pedantic=True,
        )


# ----------------------------------------------------------------------------------------------- what is frozen


def _has(optimizer: Value, change: AttributeAssigned, ctx: Context) -> bool:
    """Whether an optimizer was given what is frozen: its modules, or a part of one."""
    modules, _ = ctx.parameters_of(optimizer)
    return any(ctx.is_part(part, module) for module in modules for part in ctx.modules_switched(change))


def _is_same_part(left: AttributeAssigned, right: AttributeAssigned, ctx: Context) -> bool:
    parts, others = ctx.modules_switched(left), ctx.modules_switched(right)
    if not parts or not others:
        return True  # in doubt, they are
    return any(ctx.reaches(part, other) or ctx.reaches(other, part) for part in parts for other in others)


# ------------------------------------------------------------------------------------------------- when, and how


def _training_loops(event: Event, ctx: Context) -> list[Loop]:
    """The loops around an event in which there are backward passes."""
    return [loop for loop in ctx.loops_around(event) if ctx.trains(loop)]


def _clearings(optimizer: Value, ctx: Context) -> list[ZeroGrad]:
    """Where the gradients that an optimizer uses may be cleared."""
    return [event for event in ctx.all_of(ZeroGrad) if ctx.may_concern(event.target, optimizer)]


def _holds_at_start(guard: Guard) -> bool:
    """Whether a condition on a loop's counter holds in its first iterations: ``epoch == 0``, ``epoch < 5``."""
    if guard.relation in ("==", "is"):
        return guard.holds and guard.operand in (0, 1)
    if guard.relation in ("<", "<="):
        return guard.holds
    return not guard.holds or guard.relation not in (">", ">=", "in", "truthy")


def _lasting(freeze: AttributeAssigned, ctx: Context) -> tuple[Guard, ...]:
    """The conditions for freezing that do not change from one iteration to the next."""
    loops = _training_loops(freeze, ctx)
    return tuple(guard for guard in freeze.guards if all(guard.names.isdisjoint(loop.targets) for loop in loops))


def _is_conditional(change: AttributeAssigned) -> bool:
    return any(guard.by_default is False for guard in change.guards)


def _has_inertia(optimizer: Value, ctx: Context) -> bool:
    """Whether an optimizer moves parameters whose gradients are zero: by a memory, or by weight decay."""
    if not isinstance(optimizer, Instance):
        return False
    if optimizer.library_name != "torch.optim.SGD":
        return True
    options = [ctx.argument(optimizer, 2, "momentum"), ctx.argument(optimizer, 4, "weight_decay")]
    return any(option is not None and ctx.constant(option) != 0 for option in options)  # who gives one means one


def _step_with_stale_gradient(
    freeze: AttributeAssigned, changes: list[AttributeAssigned], optimizer: Value, ctx: Context
) -> OptimizerStep | None:
    """A step, not the first one, that an optimizer takes after a freeze with gradients from before it.

    The states are ``clean`` and ``dirty`` (trained, without and with gradients), ``frozen`` without gradients, and
    ``stale`` and ``stepped`` (frozen with gradients, before and after a step). The first step may be the one that the
    gradients were computed for.
    """
    others = [change for change in changes if change is not freeze and _is_same_part(change, freeze, ctx)]

    def advance(event: Event, state: str) -> str:
        if event is freeze:
            return {"clean": "frozen", "dirty": "stale"}.get(state, state)
        if isinstance(event, AttributeAssigned):
            if ctx.constant(event.value) is False:
                return state
            return "clean" if state in ("clean", "frozen") else "dirty"
        if isinstance(event, Backward):
            return "dirty" if state == "clean" else state
        if isinstance(event, OptimizerStep):
            return "stepped" if state == "stale" else state
        return "clean" if state in ("clean", "dirty") else "frozen"  # the gradients are, or may be, gone

    def is_relevant(event: Event) -> bool:
        if isinstance(event, ZeroGrad):
            return event.sets_to_none is not False and ctx.may_concern(event.target, optimizer)
        if isinstance(event, OptimizerStep):
            return ctx.is_same(event.optimizer, optimizer)
        if isinstance(event, OpaqueCall):
            return ctx.opaque_to(event, optimizer)
        if isinstance(event, OptimizerCreated):
            return True
        return isinstance(event, Backward) or event is freeze or any(event is other for other in others)

    arrivals = ctx.follow("clean", advance, _KINDS, is_relevant).arrivals
    found = (event for event, states in arrivals.items() if isinstance(event, OptimizerStep) and "stepped" in states)
    return next(found, None)


def _goes_with(clearing: ZeroGrad, step: OptimizerStep, ctx: Context) -> bool:
    """Whether gradients become ``None`` in each iteration that has this step: under no conditions but the step's."""
    return (
        clearing.sets_to_none is not False
        and {guard.key() for guard in clearing.guards} <= {guard.key() for guard in step.guards}
        and _training_loops(clearing, ctx)[:1] == _training_loops(step, ctx)[:1]
    )


# --------------------------------------------------------------------------------------------------------- fixes


def _to_none(cleared: list[ZeroGrad]) -> Edits:
    """Take back ``set_to_none=False`` wherever it is, if that is in one file."""
    sites = {id(event.site.node): event.site for event in cleared}.values()
    return together(*(_without_zeros(site) for site in sites))


def _without_zeros(clearing: Site) -> Edits:
    keywords = clearing.node.keywords if isinstance(clearing.node, ast.Call) else []
    is_told = any(keyword.arg == "set_to_none" for keyword in keywords)
    return set_argument(clearing, "set_to_none", "True") if is_told else Edits()


def _give_trained(parameters: Site, ctx: Context) -> list[Fix]:
    edit = ctx.replace(parameters, f"filter(lambda p: p.requires_grad, {ctx.source_of(parameters)})")
    return [Fix("Give the optimizer only what is trained", (edit,), "safe")]  # this one changes no numbers
