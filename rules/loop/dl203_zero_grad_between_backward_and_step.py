"""Gradients that are cleared after they are computed and before they are used.

The optimizer steps with no gradient at all: nothing is trained, without any error. Where gradients should add up over
several batches and are cleared with each, it steps with those of the last one.

Measured on torch 2.13: 0 of 200 steps moved the weights, and the loss stayed at its initial 1.647, with SGD, momentum,
Adam and AdamW alike.

## Bad
    loss.backward()
    optimizer.zero_grad()
    optimizer.step()

## Good
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

## Not reported
Steps that are left out on purpose: where neither the name of their number nor a division of the loss by it says that
gradients should add up. Clearing another optimizer's gradients in between (two networks trained in turns), losses that
are not seen to be computed with a network that the optimizer was given (where a function that is not known is given it,
it is a question), a second backward pass between the clearing and the step, gradients that are written back (`p.grad =
g`), rotated loops (`step; zero_grad; backward`), paths on which the gradients are still there, and what is done where
the loss is not finite, or under a condition beside which the optimizer steps with its gradients.

## Fix (unsafe)
Moves the clearing before the backward pass, where both stand in the same block. Unsafe because training begins,
as it should.

## On real code
742 public repositories: no finding. Code that trains nothing is not published. In 363 others, after gradients that are
cleared with each batch were added: no finding. Of 4 in unread ones 1 was true, 2 false (gradients that are thrown away
where the loss is not finite, and those of another network) and 1 doubtful, in code that fails before. In 160 more: a
project with this in the loop of four discriminators, and gradients that are cleared with each batch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from dllint.api import (
    Assumption,
    AttributeAssigned,
    Backward,
    Context,
    Edits,
    Event,
    Finding,
    OpaqueCall,
    OptimizerStep,
    Program,
    Rule,
    Symbol,
    Value,
    ZeroGrad,
    attribute_of,
    move_before,
)

_ASKS_FOR_FINITE = {"isnan": True, "isinf": True, "isfinite": False}  # and what is true where it is not
State = tuple[str, Event | None]  # of the gradients: none, fresh, cleared or unknown, and what cleared them
_START: State = ("none", None)
_KINDS = (Backward, ZeroGrad, OptimizerStep, AttributeAssigned)


def loss_is_not_finite(step: OptimizerStep, clearing: Event, ctx: Context) -> bool:
    """it is done where a loss is not finite, whose gradients are thrown away"""
    return any(
        guard.holds is outcome and name in guard.subject
        for guard in step.guards
        for name, outcome in _ASKS_FOR_FINITE.items()
    )


def are_thrown_away(step: OptimizerStep, clearing: Event, ctx: Context) -> bool:
    """they are thrown away under a condition that the backward pass does not have, beside steps that use theirs"""
    since = ctx.since_last(OptimizerStep, before=clearing)
    used = [event for event in since if isinstance(event, Backward)]
    loops = ctx.loops_around(step)
    others = (
        each for each in ctx.steps() if ctx.is_same(each.optimizer, step.optimizer) and ctx.loops_around(each) == loops
    )
    return (
        bool(used)
        and all(ctx.conditions_beyond(clearing, each) for each in used)
        and any(ctx.conditions_beyond(clearing, each) for each in others)
    )


class ZeroGradBetweenBackwardAndStep(Rule):
    code = "DL203"
    name = "zero-grad-between-backward-and-step"
    category = "correctness"
    severity = "error"
    default = False
    preview = True
    triggers = (("backward", "manual_backward"), ("zero_grad", "grad"), ("step",))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/optim.html",)
    excuses = (loss_is_not_finite, are_thrown_away)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for optimizer in ctx.stepped_optimizers():
            # Unresolved calls can only take a suspicion away, and they are many: look at them where there is one.
            if _steps_without_gradients(_KINDS, optimizer, ctx):
                empty = _steps_without_gradients((*_KINDS, OpaqueCall), optimizer, ctx)
                left = ((step, clearing) for step, clearing in empty if not ctx.excused(self, step, clearing))
                yield from (self._report(step, clearing, optimizer, ctx) for step, clearing in left)
            else:
                yield from self._in_each_turn(optimizer, ctx)

    def _in_each_turn(self, optimizer: Value, ctx: Context) -> Iterator[Finding]:
        """Gradients that should add up over several batches, and are cleared with each."""
        reported: set[int] = set()
        for step in ctx.steps():
            clearings = ctx.cleared_every_turn(step) if ctx.is_same(step.optimizer, optimizer) else []
            if not clearings or id(clearings[0].site.node) in reported or _is_done_otherwise(step, optimizer, ctx):
                continue
            reported.add(id(clearings[0].site.node))
            yield ctx.finding(
                self,
                clearings[0],
                f"gradients of {ctx.called(optimizer, 'optimizer')} are cleared with each batch and used every few",
                on=[step],
                effect="each step uses the gradients of the last batch alone: those of the others are thrown away",
                help="clear the gradients after the step, and only where it happens",
                trace=[(clearings[0].site, "cleared in each turn of the loop"), (step.site, "used every few turns")],
                severity="warning",
                confirmable=False,  # there are gradients at each step, if not those of all batches
            )

    def _report(self, step: OptimizerStep, clearing: Event, optimizer: Value, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            clearing,
            f"the gradients of {ctx.called(optimizer, 'optimizer')} are cleared between the backward pass and the step",
            on=[step],
            assuming=_assumed_of_loss(clearing, optimizer, ctx),
            effect="every step finds no gradients: nothing is trained, and no error says so",
            help="clear the gradients before the backward pass, or after the step",
            trace=[(clearing.site, "the new gradients are cleared"), (step.site, "the step has none to use")],
            fix=("Clear before the backward pass", _clear_first(clearing, ctx)),
        )


def _is_done_otherwise(step: OptimizerStep, optimizer: Value, ctx: Context) -> bool:
    """Whether a framework counts the batches, or gradients or graphs are kept or changed by code of the loop."""
    inside = ctx.beside(step, ctx.loops_around(step)[0])
    passes = [event for event in inside if isinstance(event, Backward)]
    return (
        any(ctx.is_managed(event) or event.via or "accumulate" in event.contexts for event in passes)
        or any(_keeps_graph(event) for event in passes)
        or any(_sets_gradients(event) for event in inside if isinstance(event, AttributeAssigned))
        or any(ctx.opaque_to_gradients(event, optimizer) for event in inside if isinstance(event, OpaqueCall))
    )


def _given_to(backward: Backward, optimizer: Value, ctx: Context) -> Symbol | None:
    """The unresolved call that a loss comes from, if it is given a network of the optimizer: `forward(model, x, y)`."""
    networks = ctx.parameters_of(optimizer)[0]
    sources = ctx.sources_up_to(backward.loss, lambda _: False) if backward.loss is not None and networks else ()
    for source in sources:
        given = source.arguments if isinstance(source, Symbol) and source.name == "call" else None
        if given is not None and any(ctx.is_same(each, network) for each in given.all() for network in networks):
            return source if isinstance(source, Symbol) else None
    return None


def _assumed_of_loss(clearing: Event, optimizer: Value, ctx: Context) -> list[Assumption]:
    """That an unresolved function computes the loss with the network that it is given."""
    passes = [each for each in ctx.since_last(OptimizerStep, before=clearing) if isinstance(each, Backward)]
    is_seen = not ctx.parameters_of(optimizer)[0] or any(ctx.gives_gradients(each.loss, optimizer) for each in passes)
    call = next((found for each in passes if (found := _given_to(each, optimizer, ctx)) is not None), None)
    if is_seen or call is None:
        return []
    name = ctx.name_of(call.inputs[0]) or "what is called"
    return [Assumption("effect", f"`{name}` computes the loss with the network that it is given")]


def _sets_gradients(event: AttributeAssigned) -> bool:
    """Whether an assignment is ``p.grad = g`` or ``p.grad.data = g``."""
    return event.attribute == "grad" or attribute_of(event.target, "grad") is not None


def _keeps_graph(backward: Backward) -> bool:
    """Whether what goes backward may be a sum over batches, which is asked for its gradients again and again."""
    call = backward.site.node
    return isinstance(call, ast.Call) and any(each.arg == "retain_graph" for each in call.keywords)


def _clear_first(clearing: Event, ctx: Context) -> Edits:
    """Move the clearing before the backward passes since the last step, in the same block."""
    since = ctx.since_last(OptimizerStep, before=clearing)
    used = [event for event in since if isinstance(event, Backward)]
    if not used or not isinstance(clearing.site.node, ast.Call):
        return Edits()
    if not all(ctx.same_turn(event, clearing) for event in used):
        return Edits()
    return move_before(clearing.site, used[0].site)


def _steps_without_gradients(
    kinds: tuple[type[Event], ...], optimizer: Value, ctx: Context
) -> list[tuple[OptimizerStep, Event]]:
    """The steps that find gradients cleared on every path, with what clears them."""
    step = partial(_gradients_after, optimizer, ctx)
    flow = ctx.follow(_START, step, kinds, partial(_is_about_gradients, optimizer, ctx))
    return [
        (event, min((by for _, by in states if by is not None), key=lambda by: by.site.line))
        for event, states in flow.arrivals.items()
        if isinstance(event, OptimizerStep)
        and not ctx.is_managed(event)
        and all(state == "cleared" for state, _ in states)
    ]


def _is_about_gradients(optimizer: Value, ctx: Context, event: Event) -> bool:
    if isinstance(event, ZeroGrad):
        return ctx.must_concern(event.target, optimizer)
    if isinstance(event, OptimizerStep):
        return ctx.is_same(event.optimizer, optimizer)
    if isinstance(event, OpaqueCall):
        return ctx.opaque_to_gradients(event, optimizer)
    if isinstance(event, AttributeAssigned):
        return _sets_gradients(event) and not ctx.is_none(event.value)
    return isinstance(event, Backward) and ctx.gives_gradients(event.loss, optimizer) is not False


def _gradients_after(optimizer: Value, ctx: Context, event: Event, state: State) -> State:
    if isinstance(event, Backward):
        # Of an optimizer that is handed in, as of most, the networks are not known: whoever has it trains with it.
        is_handed_in = not ctx.parameters_of(optimizer)[0]
        is_seen = is_handed_in or ctx.gives_gradients(event.loss, optimizer) or _given_to(event, optimizer, ctx)
        return ("fresh" if is_seen else "unknown", None)
    if isinstance(event, ZeroGrad):
        return ("cleared", event) if state[0] == "fresh" else state
    if isinstance(event, OptimizerStep):
        return _START
    return ("unknown", None) if state[0] == "cleared" else state
