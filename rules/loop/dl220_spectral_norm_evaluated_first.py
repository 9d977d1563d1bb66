"""A model with `torch.nn.utils.spectral_norm` that is evaluated before it was ever called in training mode.

`spectral_norm` divides a weight by an estimate of its norm, which calls in training mode make better step by step. It
begins with random vectors, so that before the first such call the estimate is far too small, and evaluation mode uses
it as it is: the "score before training" is one of weights that are many times too large.

Measured on torch 2.13 (30 seeds each): the outputs of a new network with three such layers are in the median 41,000
times too large, those of a small discriminator 26,000 times; a cross-entropy of 10 classes is 39 to 1,245 instead of
2.3. `torch.nn.utils.parametrizations.spectral_norm` estimates the norm when it is applied: 2.3 at once.

## Bad
    from torch.nn.utils import spectral_norm

    model = nn.Sequential(spectral_norm(nn.Linear(8, 8)), nn.ReLU(), spectral_norm(nn.Linear(8, 2)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model.eval()
    with torch.no_grad():
        print(criterion(model(x), y).item())
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## Good
    from torch.nn.utils.parametrizations import spectral_norm

    model = nn.Sequential(spectral_norm(nn.Linear(8, 8)), nn.ReLU(), spectral_norm(nn.Linear(8, 2)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model.eval()
    with torch.no_grad():
        print(criterion(model(x), y).item())
    model.train()
    for x, y in loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

## Not reported
Models that are never trained, that load a state (the estimate is in it), or may do either out of sight; calls that also
come after the training, as in a loop that evaluates first; Lightning's sanity check, whose result is thrown away.

## On real code
790 public repositories, of which 11 have `spectral_norm` of torch or of their own: no finding, and no question.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import (
    Context,
    Event,
    Finding,
    ModelChanged,
    ModelForward,
    OpaqueCall,
    Program,
    Rule,
    StateRestored,
    Value,
)

_NORM = "torch.nn.utils.spectral_norm"
_KINDS = (ModelForward, StateRestored, OpaqueCall)


def is_never_trained(event: ModelForward, model: Value, ctx: Context) -> bool:
    """nothing trains the model, which is only tried out"""
    return not ctx.is_trained(model)


def is_managed(event: ModelForward, model: Value, ctx: Context) -> bool:
    """a framework decides what is called first"""
    return bool(ctx.framework(event))


def is_unread(event: ModelForward, model: Value, ctx: Context) -> bool:
    """nobody reads what the model returns"""
    return not ctx.is_used(event.result)


class SpectralNormEvaluatedFirst(Rule):
    code = "DL220"
    name = "spectral-norm-evaluated-first"
    category = "correctness"
    severity = "warning"
    triggers = (("eval", "train"), ("spectral_norm",))
    confirmable = True
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.spectral_norm.html",)
    excuses = (is_never_trained, is_managed, is_unread)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        applied = [each for each in ctx.all_of(ModelChanged) if each.action == _NORM]
        calls = [event for event in ctx.all_of(ModelForward) if applied and not ctx.is_inside_model(event, event.model)]
        for model in {id(model): model for event in calls for model in ctx.objects(event.model)}.values():
            norm = next((each for each in applied if ctx.reaches(model, each.result)), None)
            is_known = norm is not None and _NORM in ctx.layers_in(model)
            event = _evaluated_first(model, calls, ctx) if is_known else None
            if norm is not None and event is not None and not ctx.excused(self, event, model):
                name = ctx.callee_of(event) or ctx.name_of(model) or "the model"
                yield ctx.finding(
                    self,
                    event,
                    f"`{name}` is evaluated before a call in training mode has estimated its spectral norms",
                    on=[event, norm, model, *ctx.left_alone(event, model)],
                    effect="weights are divided by random numbers: outputs are thousands of times too large",
                    help="use `torch.nn.utils.parametrizations.spectral_norm`, or evaluate after the training",
                    trace=[(norm.site, "this estimates norms in training mode only"), (event.site, "the first call")],
                )


def _evaluated_first(model: Value, calls: list[ModelForward], ctx: Context) -> ModelForward | None:
    """The first call of a model, if that finds it in evaluation mode and with nothing loaded on all paths."""
    own = tuple(event for event in calls if ctx.is_same(event.model, model))
    modes = ctx.modes(model, own)
    evaluated = [event for event in own if modes.at(event) == {"eval"}]

    def matters(event: Event) -> bool:
        if isinstance(event, ModelForward):
            return event in own
        if isinstance(event, StateRestored):
            return ctx.reaches(event.target, model) or ctx.reaches(model, event.target)
        return isinstance(event, OpaqueCall) and ctx.may_set_mode(model, event)

    def after(event: Event, is_new: bool) -> bool:
        return is_new and event in evaluated

    flow = ctx.follow(True, after, _KINDS, matters) if evaluated else None
    return next(
        (event for event in evaluated if flow is not None and set(flow.arrivals.get(event, ())) == {True}), None
    )
