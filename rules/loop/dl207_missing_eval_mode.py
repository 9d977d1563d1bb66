"""A model that is evaluated in training mode.

Dropout stays active and batch normalisation uses (and updates) batch statistics, so the score is too low, changes from
run to run, and depends on the batch size; the validation data leak into the running statistics.

Measured on torch 2.13 (batch norm and dropout .5): six evaluations of one model gave losses between .767 and .861 in
training mode and exactly .4205 in evaluation mode; with batches of 4, 1.525 against .514. One validation batch in
training mode moved a running mean by up to 1.73, also under `no_grad`.

## Bad
    def evaluate(model, loader):
        with torch.no_grad():
            for x, y in loader:
                correct += (model(x).argmax(1) == y).sum()

## Good
    def evaluate(model, loader):
        model.eval()
        with torch.no_grad():
            for x, y in loader:
                correct += (model(x).argmax(1) == y).sum()

## Not reported
Models without a layer that depends on the mode, evaluation whose caller is not seen (it may have set the mode), forward
passes under `no_grad` inside a training step (teachers, momentum encoders, rollouts, sample grids), Monte Carlo
dropout, and models that a framework switches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from dllint.api import (
    Backward,
    Context,
    Event,
    Finding,
    Instance,
    ModeChange,
    ModelForward,
    OpaqueCall,
    OptimizerCreated,
    Program,
    Rule,
    StateRestored,
    Symbol,
    Value,
    walk,
)

State = str  # of the model: train, eval or unknown
_EVALUATION = re.compile(r"(^|_)(eval|evaluate|evaluation|valid|validate|validation|val|vali|test|testing|infer|inference|dev)(_|$|\d)|Eval|Valid")
_READY_MADE = ("from_pretrained", "from_config", "hub.load")  # come in evaluation mode, or in one not known
_NOT_EVALUATION = re.compile(r"(^|_)(mc|monte|uncertain\w*|update_bn|bn_update|adapt|tta|memory|bank|rollout|collect)(_|$)|dropout")


class MissingEvalMode(Rule):
    code = "DL207"
    name = "missing-eval-mode"
    category = "suspicious"
    severity = "warning"
    triggers = (("no_grad", "inference_mode", "set_grad_enabled"), ("backward", "manual_backward", "train"))
    confirmable = True
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.eval",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        candidates = [event for event in ctx.events if isinstance(event, ModelForward) and self._evaluates(event, ctx)]
        seen: set[tuple[int, int]] = set()
        for model in _distinct(value for event in candidates for value in ctx.objects(event.model)):
            mine = [event for event in candidates if ctx.is_same(event.model, model)]
            if not ctx.is_mode_sensitive(model):
                continue
            start = "train" if self._starts_training(model, mine[0], ctx) else "unknown"
            flow = ctx.follow(start, partial(_next, ctx), partial(_matters, model, ctx))
            for event in mine:
                key = (id(event.site.node), id(model))
                if flow.arrivals.get(event) == {"train"} and key not in seen:
                    seen.add(key)
                    yield self._report(event, model, ctx)

    def _starts_training(self, model: Value, event: ModelForward, ctx: Context) -> bool:
        """Whether a model is in training mode unless the program says otherwise.

        That holds for a model that the program makes, and trains or loads. For one that a function is given, it holds where the
        function that trains it in the same file sets the mode itself, and nobody who names this one sets another.
        """
        if isinstance(model, Instance) or (isinstance(model, Symbol) and model.name in ("call", "item")):
            pretrained = isinstance(model, Instance) and model.library_name.endswith(_READY_MADE)
            return not pretrained and self._is_trained(model, ctx)
        if not isinstance(model, Symbol) or model.name not in ("parameter", "attribute"):
            return False
        name, function = str(model.detail), event.frame.function
        trains = re.search(rf"\b{name}\.train\((True)?\)", ctx.text(event.site)) and "backward(" in ctx.text(event.site)
        return bool(trains) and not ctx.project_mentions(rf"\b{name}\.(eval\(|train\((mode=)?False)", rf"\b{function}\b")

    def _evaluates(self, event: ModelForward, ctx: Context) -> bool:
        """Whether a forward pass belongs to an evaluation: gradients off, in code that says so, outside a training step."""
        if event.grad != "off" or ctx.is_managed(event) or ctx.role(event.model) == "loss-class" or ctx.is_unit_test(event):
            return False
        loops = ctx.loops_around(event)
        if loops and any(isinstance(other, Backward) for other in walk(loops[0].body)):
            return False
        names = [frame.function for frame in event.frame.stack()]
        if ctx.program.complete:
            names.append(ctx.program.name)
        names += [ctx.name_of(loop.iterable) for loop in loops if loop.iterable is not None]
        names += [name for loop in loops if loop.iterable is not None for name in ctx.names_behind(loop.iterable)]
        if any(_NOT_EVALUATION.search(name) for name in names):
            return False
        return any(_EVALUATION.search(name) for name in names)

    def _is_trained(self, model: Value, ctx: Context) -> bool:
        """Whether a model is trained (its parameters, or those of its owner, go into an optimizer), or loaded as such."""
        for event in ctx.events:
            if isinstance(event, ModeChange) and event.training and ctx.is_same(event.model, model):
                return True
            if isinstance(event, StateRestored) and ctx.is_same(event.target, model):
                return True
            if isinstance(event, OptimizerCreated):
                modules, _ = ctx.modules_in(event.parameters)
                if any(ctx.reaches(module, model) for module in modules):
                    return True
        return False

    def _report(self, event: ModelForward, model: Value, ctx: Context) -> Finding:
        name = ctx.name_of(model) or "the model"
        return ctx.finding(
            self,
            event.site,
            f"`{name}` is evaluated in training mode",
            effect="dropout is active and batch norm uses and updates batch statistics, so the score is wrong and not "
            "reproducible",
            help=f"call `{name}.eval()` before the evaluation and `{name}.train()` before training goes on",
            trace=[*ctx.calls_to(event), (event.site, "evaluated without `eval()`")],
            confidence="likely",
        )


def _distinct(values: Iterator[Value]) -> list[Value]:
    found: list[Value] = []
    for value in values:
        if not any(value is known for known in found):
            found.append(value)
    return found


def _matters(model: Value, ctx: Context, event: Event) -> bool:
    if isinstance(event, ModeChange):
        return any(owner is model or ctx.reaches(owner, model) for owner in ctx.objects(event.model))
    if isinstance(event, OpaqueCall):
        return ctx.opaque_to(event, model)
    return isinstance(event, ModelForward) and ctx.is_same(event.model, model)


def _next(ctx: Context, event: Event, state: State) -> State:
    if isinstance(event, ModeChange):
        return "unknown" if event.training is None else "train" if event.training else "eval"
    return "unknown" if isinstance(event, OpaqueCall) else state
