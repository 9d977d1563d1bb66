"""A column of predictions against a row of targets, in a loss that is written by hand.

A model that ends in `nn.Linear(..., 1)` returns (N, 1), and targets are often (N,). `(prediction - target) ** 2` has
then (N, N) numbers: each prediction is compared with the targets of all samples, and the best that the model can learn
is their mean. Nothing warns, as the losses of torch would.

Measured on torch 2.13 (linear regression, batches of 50, three seeds): the model explains 2 to 3 % of the
variance of the test targets instead of 99.9 %.

## Bad
    net = nn.Linear(10, 1)
    prediction = net(x).view(-1, 1)
    loss = ((prediction - y.view(-1)) ** 2).mean()
    loss.backward()

## Good
    net = nn.Linear(10, 1)
    prediction = net(x).view(-1)
    loss = ((prediction - y.view(-1)) ** 2).mean()
    loss.backward()

## Not reported
Tensors of which one is not known to be (N, 1) and the other (N,); all pairs that are wanted, as in distances, kernels
and rankings: what is summed over one axis before the loss, or is transposed, or stands in a function of such a name;
sums and differences of which nothing but the mean is taken, as `(a + b).mean()` is `a.mean() + b.mean()` in any shape.
Sides that have one number for each of something else than the samples: a range (`torch.arange`), weights of a module;
and two groups of samples that conditions choose (`score[y == 1]` beside `score[y == 0]`). Losses of torch are the
matter of DL117.

## On real code
233 public repositories: no finding. In others 2 of 3 were true: the third took the mean of a sum, which is the same in
any shape. What has no number for each sample was found among programs written for the purpose, and is silent since.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Assumptions, Backward, Const, Context, Finding, Instance, Rule, Site, Symbol, Value

_PAIRED = ("+", "-", "*", "/", "torch.sub", "torch.add", "torch.mul")
_EITHER = ("torch.max", "torch.min", "torch.maximum", "torch.minimum")
_WHOLE = (".mean", ".sum", "torch.mean", "torch.sum")
_LINEAR = ("+", "-", "torch.add", "torch.sub")
_SCALED = ("*", "/", "torch.mul", "torch.div")
_RESHAPED = (".view", ".reshape", ".flatten", ".to", ".cuda", ".float", ".squeeze", "torch.flatten", "torch.squeeze")
_COUNTED = ("torch.arange", "torch.linspace", "torch.logspace")
_CHOOSING = (".unique", "torch.unique", ".nonzero", "torch.nonzero", ".masked_select", "torch.masked_select")


# ------------------------------------------------------------------------------------------------- excuses


def is_of_all_pairs(event: Backward, pair: Symbol, ctx: Context) -> bool:
    """all pairs are wanted, as names say: distances, kernels, rankings"""
    at = pair.site or event.site
    return any(ctx.speaks_of("all-pairs", name) for name in (*ctx.scope(at).split("."), ctx.name_of(pair)))


def is_of_one_sample(event: Backward, pair: Symbol, ctx: Context) -> bool:
    """a side has one number, or the other side is made of it: both come from one tensor"""
    left, right = (ctx.shape(side).sizes[0] for side in pair.inputs[:2] if ctx.shape(side).sizes)
    sources = [{id(source) for source in ctx.sources(side) if isinstance(source, Symbol)} for side in pair.inputs[:2]]
    is_of_itself = id(pair.inputs[0]) in sources[1] or id(pair.inputs[1]) in sources[0]
    return 1 in (left.known, right.known) or is_of_itself


def is_of_other_than_samples(event: Backward, pair: Symbol, ctx: Context) -> bool:
    """a side is counted out, or holds weights: it has as many numbers as these, and not one for each sample"""
    return any(_is_of_no_sample(side) for side in pair.inputs[:2])


def is_of_two_groups(event: Backward, pair: Symbol, ctx: Context) -> bool:
    """the sides are of different samples, which conditions choose, so that they are not equally many"""
    left, right = ({_condition(source) for source in ctx.sources(side)} - {""} for side in pair.inputs[:2])
    return left != right


class StrayAxisBroadcast(Rule):
    code = "DL822"
    name = "stray-axis-broadcast"
    category = "correctness"
    severity = "warning"
    default = False
    preview = True
    since = "0.1.0"
    triggers = (("backward",), ("mean", "sum"))
    references = ("https://docs.pytorch.org/docs/stable/notes/broadcasting.html",)
    excuses = (is_of_all_pairs, is_of_one_sample, is_of_other_than_samples, is_of_two_groups)

    def __init__(self) -> None:
        self._told: list[Site] = []

    def on_backward(self, event: Backward, ctx: Context) -> Iterator[Finding]:
        if event.loss is None:
            return
        for source in (*ctx.sources_inside(event.loss), *ctx.sources(event.loss)):  # of choices, and in models
            if isinstance(source, Symbol) and source.name in _WHOLE and len(source.inputs) == 1:
                yield from self._of_terms(event, source, ctx)

    def _of_terms(self, event: Backward, whole: Symbol, ctx: Context) -> Iterator[Finding]:
        """What a mean or sum over everything is computed from, element by element."""
        pair = _pair(whole.inputs[0], ctx)
        if pair is None or pair.site is None or pair.site in self._told or event.loss is None:
            return
        if _is_sum_of_parts(whole.inputs[0], pair, ctx):
            return
        if ctx.excused(self, event, pair):
            return
        self._told.append(pair.site)
        yield ctx.finding(
            self,
            pair.site,
            f"`{ctx.source_of(pair.site)}` has all pairs: (N, 1) and (N,) are broadcast to (N, N)",
            on=list(pair.inputs[:2]),
            effect="each prediction is compared with the targets of all samples: the model learns their mean",
            help="give both the same shape, as by `prediction.squeeze(1)`",
            trace=[(event.site, "gradients are computed from it")],
            assuming=[*ctx.assumptions_of(event), *_assumed_of_way(event.loss, whole, ctx)],
        )


def _is_of_no_sample(value: Value) -> bool:
    """Whether a value is a range of numbers, or the weights of a module, in another shape."""
    while isinstance(value, Symbol) and value.inputs and value.name in _RESHAPED:
        value = value.inputs[0]
    if not isinstance(value, Symbol):
        return False
    if value.name == "attribute":
        return isinstance(value.inputs[0], Instance) if value.inputs else False
    if value.name in _COUNTED:
        return True
    tensors = [each for each in value.inputs if not isinstance(each, Const)]
    return value.name in (*_PAIRED, *_SCALED, "negative") and bool(tensors) and all(map(_is_of_no_sample, tensors))


def _condition(source: Value) -> str:
    """What chooses some of the samples, where something does."""
    if not isinstance(source, Symbol):
        return ""
    if source.name in _CHOOSING:
        return source.name
    chosen = source.inputs[1] if source.name == "item" and len(source.inputs) > 1 else None
    return str(source.detail) if isinstance(chosen, Symbol) and chosen.name == "compare" else ""


def _assumed_of_way(loss: Value, whole: Symbol, ctx: Context) -> Assumptions:
    """What is assumed by who takes a loss to be computed from a mean or sum: of other terms nothing."""

    def is_end(value: Value) -> bool:
        return value is whole or not any(source is whole for source in ctx.sources(value))

    return tuple(ctx.assumed_of_computation(loss, is_end))


def _is_sum_of_parts(value: Value, pair: Symbol, ctx: Context) -> bool:
    """Whether a value is the sum or difference of a pair, perhaps with numbers: its mean is made of the mean of each
    side by itself, so that it does not matter which of them belong together; so is its sum, but for the factor N."""
    if pair.name not in _LINEAR or not all(_has_known_terms(side, ctx) for side in pair.inputs):
        return False
    while value is not pair:
        if not isinstance(value, Symbol) or value.name not in (*_LINEAR, *_SCALED, "negative"):
            return False
        tensors = [side for side in value.inputs if ctx.shape(side).rank != 0]
        if len(tensors) != 1 or (value.name in ("/", "torch.div") and tensors[0] is not value.inputs[0]):
            return False
        value = tensors[0]
    return True


def _has_known_terms(value: Value, ctx: Context) -> bool:
    """Whether the shape of each term of a sum is known: one of which it is not may have all pairs itself."""
    if isinstance(value, Symbol) and value.name in (*_LINEAR, *_SCALED, "negative"):
        return all(_has_known_terms(each, ctx) for each in value.inputs)
    return ctx.shape(value).rank is not None


def _pair(value: Value, ctx: Context) -> Symbol | None:
    """The operation of a column with a row, below powers, absolute values and numbers."""
    for _ in range(8):
        if not isinstance(value, Symbol) or not value.inputs:
            return None
        if value.name in _PAIRED and len(value.inputs) == 2:
            left, right = (ctx.shape(side) for side in value.inputs)
            if (left.is_column and right.is_row) or (left.is_row and right.is_column):
                return value
            tensors = [side for side in value.inputs if ctx.shape(side).rank != 0]
            if len(tensors) != 1 and value.inputs[0] is not value.inputs[1]:
                return None
            value = tensors[0]
        elif value.name in ("**", ".pow", ".abs", ".square", "torch.pow", "torch.abs", "torch.square", "negative"):
            value = value.inputs[0]
        elif value.name in _EITHER and len(value.inputs) == 2:
            return next((pair for side in value.inputs if (pair := _pair(side, ctx)) is not None), None)
        else:
            return None
    return None
