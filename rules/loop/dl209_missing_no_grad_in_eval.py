"""Evaluation with gradients on.

Nothing goes backward in an evaluation, and yet every layer keeps its activations for it until the result is gone. That
costs memory and time, and limits the batch size; where outputs or losses are collected as tensors, the activations of
all batches are kept, and memory grows until the evaluation is over.

Measured on torch 2.13 (CPU): the scores are identical to the last bit; 9.75 MB are kept for the backward pass of one
batch instead of none, and 50 batches take .535 s instead of .419 s. Losses that are summed up as tensors keep 54.5 MB
over 60 batches instead of none.

## Bad
    def evaluate(model, loader):
        model.eval()
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum().item()

## Good
    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            for x, y in loader:
                correct += (model(x).argmax(1) == y).sum().item()

## Not reported
Evaluation that computes gradients of its own (attacks, saliency maps, adaptation at test time) or speaks of them, or
whose results somebody trains with; single forward passes outside of loops; evaluation that a framework runs, or that
hands the model to unknown code; models whose parameters are frozen; code for torch before 0.4, which has
`volatile=True` for it; code that chooses by a condition whether gradients are on.

## Fix (safe)
Puts the loop of the evaluation into `with torch.no_grad():`. The numbers stay what they are.

## On real code
138 public repositories: 37 findings in 21 of them; 34 are true, evaluation functions and inference scripts without
`no_grad`, several of which collect outputs as tensors. Three stand in code for torch 0.3, which does not run any more.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import takewhile

from dllint.api import (
    Backward,
    Context,
    Edits,
    Finding,
    Loop,
    ModeChange,
    ModelForward,
    OpaqueCall,
    Phase,
    Program,
    Rule,
    Value,
    spelling_of,
    walk,
    wrap_in,
)

_OF_GRADIENTS = frozenset(
    (
        *("backward", "manual_backward", "autograd", "grad", "requires_grad", "requires_grad_", "retain_grad"),
        *("register_hook", "register_full_backward_hook", "register_backward_hook", "enable_grad", "GradScaler"),
        *("set_grad_enabled", "jacobian", "hessian", "functional_call", "jacrev", "jacfwd", "vjp"),
    )
)


# ------------------------------------------------------------------------------------------------- excuses


def is_inside_a_model(event: ModelForward, model: Value, ctx: Context) -> bool:
    """it is a part of a model, whose caller decides, or may be no model"""
    return ctx.is_inside_model(event, model) or not ctx.is_called_as_model(event, model)


def happens_once(event: ModelForward, model: Value, ctx: Context) -> bool:
    """it is a single forward pass, in no loop"""
    return not ctx.loops_around(event)


def has_nothing_to_train(event: ModelForward, model: Value, ctx: Context) -> bool:
    """the parameters of the model are frozen, or it has none"""
    frozen = (part for freeze in ctx.freezes for part in ctx.modules_switched(freeze))
    return ctx.has_parameters(model) is False or any(ctx.reaches(model, part) for part in frozen)


def is_of_old_torch(event: ModelForward, model: Value, ctx: Context) -> bool:
    """the code is for torch before 0.4, where `volatile=True` switches gradients off"""
    return ctx.predates_no_grad(event.site)


def asks_for_gradients(event: ModelForward, model: Value, ctx: Context) -> bool:
    """the evaluation asks for gradients, or somebody trains with what it returns"""
    if ctx.goes_backward(event.result):
        return True
    loops = _loops_of_evaluation(event, ctx)
    around = set(event.frame.stack()) - set(ctx.evaluating_functions(event))
    frames = {frame for loop in loops for each in walk(loop.body) for frame in each.frame.stack()} - around
    functions = {frame.definition.node for frame in (*frames, *ctx.evaluating_functions(event)) if frame.definition}
    nodes = (*functions, *(loop.site.node for loop in loops))
    names = {getattr(each, "attr", getattr(each, "id", "")) for node in nodes for each in ast.walk(node)}
    return not _OF_GRADIENTS.isdisjoint(names) or ctx.speaks_of("attack", *names)


def is_handed_on(event: ModelForward, model: Value, ctx: Context) -> bool:
    """code that is not known gets the model there, and may ask for its gradients"""
    calls = (each for loop in _loops_of_evaluation(event, ctx) for each in walk(loop.body))
    return any(isinstance(call, OpaqueCall) and ctx.opaque_to(call, model) for call in calls)


class MissingNoGradInEval(Rule):
    code = "DL209"
    name = "missing-no-grad-in-eval"
    category = "performance"
    severity = "info"
    triggers = (("eval", "train", "backward", "load_state_dict"),)
    confirmable = True
    fix_safety = "safe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.no_grad.html",)
    excuses = (
        is_inside_a_model,
        happens_once,
        has_nothing_to_train,
        is_of_old_torch,
        asks_for_gradients,
        is_handed_on,
    )

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        reported: set[int] = set()  # one finding for a function: its loop is mended as a whole
        for event in ctx.all_of(ModelForward):
            function = id(event.frame.definition.node if event.frame.definition is not None else None)
            if event.grad != "on" or function in reported or ctx.framework(event):
                continue
            models = ctx.objects(event.model)
            phase = _phase(event, models, ctx)
            if not phase.is_evaluation or not ctx.gradient(event.result).flows:
                continue
            if models and not any(ctx.excused(self, event, model) for model in models):
                reported.add(function)
                yield self._report(event, phase, ctx)

    def _report(self, event: ModelForward, phase: Phase, ctx: Context) -> Finding:
        name = ctx.callee_of(event) or ctx.name_of(event.model) or "model"
        return ctx.finding(
            self,
            event,
            f"`{name}` is evaluated with gradients on",
            on=[phase, ctx.assumed_use(event.result, "what it returns")],
            effect="all activations are kept for a backward pass that never comes, which costs memory and time",
            help="put the loop into `with torch.no_grad():`",
            trace=[*ctx.calls_to(event), (event.site, "gradients are on here")],
            fix=("Switch gradients off", _switched_off(event, ctx)),
        )


def _phase(event: ModelForward, models: list[Value], ctx: Context) -> Phase:
    """The phase of an event; a script that trains nothing, and sets evaluation mode, does so to use the model."""
    phase = ctx.phase(event)
    if phase.name != "unknown" or ctx.program.kind != "module" or any(True for _ in ctx.all_of(Backward)):
        return phase
    if any(word in event.site.module.words for word in _OF_GRADIENTS):
        return phase
    for model in models:
        is_switched = any(
            isinstance(change, ModeChange) and change.frame is event.frame and ctx.may_set_mode(model, change)
            for change in ctx.all_of(ModeChange)
        )
        if not is_switched or ctx.modes(model, (event,)).at(event) != {"eval"}:
            return phase
    return Phase("inference", "evaluation mode is set for it, and nothing is trained") if models else phase


def _loops_of_evaluation(event: ModelForward, ctx: Context) -> list[Loop]:
    """The loops around an event, innermost first, up to the one that also trains."""
    return list(takewhile(lambda loop: not ctx.trains(loop), ctx.loops_around(event)))


def _switched_off(event: ModelForward, ctx: Context) -> Edits:
    """Only in the function itself; what also trains by the same code has to be told by its caller."""
    switch = spelling_of("torch.no_grad", event.site)
    loops = [loop for loop in _loops_of_evaluation(event, ctx) if loop.frame is event.frame]
    same_place = [other for other in ctx.all_of(ModelForward) if other.site.node is event.site.node]
    if not switch or any(not _phase(other, ctx.objects(other.model), ctx).is_evaluation for other in same_place):
        return Edits()
    return wrap_in(loops[-1].site if loops else event.site, f"with {switch}():")
