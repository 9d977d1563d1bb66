"""A model that is cast or moved after `DistributedDataParallel` has wrapped it.

The wrapper averages gradients by hooks on the nodes of the graph that add them up. A parameter of another type or on
another device gets a new node, without the hook: its gradients are not averaged any more. Each rank trains a model of
its own from then on, and no error says so.

Measured on torch 2.13 (two ranks on the CPU, two layers, 20 steps of SGD): with `double()` before the wrapper the
weights of both ranks are equal to the last bit; with `double()` after it they differ by up to .026. A cast to the type
that the model has, and a move to its own device, change nothing.

## Bad
    net = DDP(nn.Linear(512, 10)).bfloat16()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x.flatten(1)), y).backward()
        optimizer.step()

## Good
    net = DDP(nn.Linear(512, 10).bfloat16())
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x.flatten(1)), y).backward()
        optimizer.step()

## Not reported
Casts and moves that change nothing: to `float()`, or to a device after the model has been moved to one before; moves of
a model that was wrapped with `device_ids`, which has to be on its device already; models that are not trained after
it; models that are wrapped again.

## On real code
276 public repositories: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import (
    Backward,
    Context,
    External,
    Finding,
    Instance,
    ModelChanged,
    Program,
    Rule,
    Value,
    assumed_under,
)

_WRAPPER = "torch.nn.parallel.DistributedDataParallel"
_CASTS = frozenset(("half", "bfloat16", "double"))
_MOVES = frozenset(("cuda", "to"))
_LOW = frozenset(f"torch.{name}" for name in ("float16", "half", "bfloat16", "float64", "double"))


# ------------------------------------------------------------------------------------------------- excuses


def was_changed_before(event: ModelChanged, wrapping: ModelChanged, ctx: Context) -> bool:
    """the model was cast or moved before it was wrapped, so that nothing may change"""
    before = (each for each in _changes(ctx) if ctx.position(each) < ctx.position(wrapping))
    return any(each.action in (_CASTS | _MOVES) and ctx.is_same(each.model, event.model) for each in before)


def is_wrapped_again(event: ModelChanged, wrapping: ModelChanged, ctx: Context) -> bool:
    """the model is wrapped again"""
    others = (each for each in _changes(ctx) if each.action == _WRAPPER and each is not wrapping)
    return any(ctx.is_same(each.model, event.model) for each in others)


class WrappedModelMoved(Rule):
    code = "DL806"
    name = "wrapped-model-moved"
    category = "correctness"
    severity = "error"
    triggers = (("DistributedDataParallel",), (*_CASTS, *_MOVES))
    confirmable = True
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html",)
    excuses = (was_changed_before, is_wrapped_again)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for wrapping in _changes(ctx):
            if wrapping.action != _WRAPPER:
                continue
            later = (each for each in _changes(ctx) if ctx.position(each) > ctx.position(wrapping))
            for event in later:
                is_same = ctx.is_same(event.model, wrapping.model) and not ctx.exclusive(event, wrapping)
                if is_same and _changes_parameters(event, wrapping, ctx) and not ctx.excused(self, event, wrapping):
                    yield from self._report(event, wrapping, ctx)
                    break

    def _report(self, event: ModelChanged, wrapping: ModelChanged, ctx: Context) -> Iterator[Finding]:
        for backward in ctx.all_of(Backward):
            assert isinstance(backward, Backward)
            if ctx.position(backward) < ctx.position(event) or backward.loss is None:
                continue
            through = [
                (guards, call.inputs[0])
                for guards, call in ctx.calls_behind(backward.loss)
                if ctx.is_same(call.inputs[0], wrapping.model)
            ]
            if through:
                guards, model = through[0]
                yield ctx.finding(
                    self,
                    event,
                    "a model is cast or moved after it was wrapped: its gradients are not averaged any more",
                    on=[wrapping, wrapping.model, backward, model],
                    assuming=[*assumed_under(guards), *ctx.left_alone(backward, wrapping.model)],
                    effect="each rank trains a model of its own, and no error says so",
                    help="cast and move the model before it is wrapped",
                    trace=[
                        (wrapping.site, "the wrapper hangs its hooks on the parameters"),
                        (event.site, "and they become others"),
                        (backward.site, "whose gradients stay on their rank"),
                    ],
                )
                return


def _changes(ctx: Context) -> list[ModelChanged]:
    return [event for event in ctx.all_of(ModelChanged) if isinstance(event, ModelChanged)]


def _changes_parameters(event: ModelChanged, wrapping: ModelChanged, ctx: Context) -> bool:
    """Whether a cast is to another type than that of new models, or a move the first one from the CPU."""
    given = event.arguments.all()
    if event.action in _CASTS or (event.action == "to" and any(_is_other_type(each) for each in given)):
        return _is_made_here(wrapping.model, ctx)
    has_device = bool(wrapping.result.arguments.keywords) if isinstance(wrapping.result, Instance) else True
    is_move = event.action == "cuda" or (event.action == "to" and ctx.constant(given[0] if given else None) == "cuda")
    return is_move and not has_device and _is_made_here(wrapping.model, ctx)


def _is_other_type(value: Value) -> bool:
    return isinstance(value, External) and value.name in _LOW


def _is_made_here(model: Value, ctx: Context) -> bool:
    """Whether a model is made in plain sight, on the CPU and in float32: nobody tells it another device or type."""
    made = ctx.objects(model)
    return bool(made) and all(
        isinstance(each, Instance) and not {"device", "dtype", "torch_dtype"} & each.arguments.keywords.keys()
        for each in made
    )
