"""A layer that is made for another number of features than it gets.

`nn.Linear(512, 10)` takes 512 features and nothing else. Where the sizes of both sides are written in the code, as in
neighboring items of a sequence, the first batch stops the run with an error. What is never run by the author, such as
another backbone of a table or a variant behind an option, keeps it until somebody takes it.

Measured on torch 2.13: `nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(32, 2))` raises `RuntimeError: mat1 and
mat2 shapes cannot be multiplied` in the first batch.

## Bad
    head = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(128, 10))
    logits = head(torch.randn(4, 512))

## Good
    head = nn.Sequential(nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))
    logits = head(torch.randn(4, 512))

## Not reported
Sizes of which one is an option, a default or computed from the data, and layers that are made but not called one after
the other: items of a sequence that is not called as a whole.

## On real code
232 public repositories: 8 findings in one, all false, of a sequence whose items are called one by one. It is silent
now, and nothing else was found.

Off by default: in 28 batches of unread repositories none of 3 findings was true; 2 were false, of layers after a
pooling of the last axis, and 1 doubtful.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, Instance, ModelForward, Rule, Site, Value


class LayerSizeMismatch(Rule):
    code = "DL824"
    name = "layer-size-mismatch"
    category = "correctness"
    severity = "error"
    default = False
    since = "0.1.0"
    triggers = (("Linear", "LayerNorm", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
                 "ConvTranspose3d", "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "LSTM", "GRU", "RNN",
                 "MultiheadAttention", "TransformerEncoderLayer"),)  # fmt: skip
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.Linear.html",)

    def __init__(self) -> None:
        self._told: list[Site] = []

    def on_model_forward(self, event: ModelForward, ctx: Context) -> Iterator[Finding]:
        layer, given = event.model, event.arguments.get(0, "input")
        if not isinstance(layer, Instance) or given is None:
            return
        wanted = ctx.wanted_size(layer)
        size = ctx.shape(given).axis(wanted[0]) if wanted is not None else None
        if wanted is not None and size is not None and size.known not in (None, wanted[1]):
            yield from self._report(layer, wanted[1], size.known, event.site, ctx)
        yield from self._of_neighbors(event, _items(layer), ctx)

    def _of_neighbors(self, event: ModelForward, items: Iterator[Value], ctx: Context) -> Iterator[Finding]:
        """Items of a sequence that is called, each of which gets what the one before it makes."""
        made: tuple[Instance, int] | None = None
        for item in items:
            wanted = ctx.wanted_size(item) if isinstance(item, Instance) else None
            if made is not None and wanted is not None and wanted[1] != made[1] and _is_of_one_kind(made[0], item):
                yield from self._report(item, wanted[1], made[1], item.site or event.site, ctx, made[0])
            made = _made(item, made, ctx)

    def _report(
        self, layer: Value, wanted: int, given: int | None, at: Site, ctx: Context, before: Instance | None = None
    ) -> Iterator[Finding]:
        if at in self._told:
            return
        self._told.append(at)
        places = [(before, f"makes {given}"), (layer, f"takes {wanted}")]
        yield ctx.finding(
            self,
            at,
            f"this `{ctx.class_name(layer)}` takes {wanted} features or channels, and gets {given}",
            on=[layer],
            effect="the first batch that comes here stops the run with an error",
            help="make the layer for what comes before it",
            trace=[(each.site, text) for each, text in places if each is not None and each.site is not None],
        )


def _items(layer: Value) -> Iterator[Value]:
    """The items of a sequence, and those of sequences in it."""
    is_sequence = isinstance(layer, Instance) and layer.library_name == "torch.nn.Sequential" and layer.arguments.exact
    if not is_sequence or not isinstance(layer, Instance):
        return
    for item in layer.arguments.positional:
        nested = list(_items(item))
        yield from nested or [item]


def _made(item: Value, before: tuple[Instance, int] | None, ctx: Context) -> tuple[Instance, int] | None:
    """The layer of a sequence that has made the number of features that the next item gets, and this number."""
    if not isinstance(item, Instance):
        return None
    size = ctx.made_size(item)
    if size is not None:
        return item, size
    return before if ctx.keeps_size(item) else None


def _is_of_one_kind(before: Instance, after: Value) -> bool:
    """Whether both count channels of an image or signal, or both features."""
    ours, theirs = (getattr(layer, "library_name", "").rpartition(".")[2] for layer in (before, after))
    if ours.startswith("Conv"):
        return theirs.startswith(("Conv", "BatchNorm"))
    return theirs.startswith(("Linear", "LayerNorm", "BatchNorm1d", "LSTM", "GRU", "RNN"))
