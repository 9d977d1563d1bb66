"""A decoder that is given the tokens which it is to predict, each at its own position.

With teacher forcing a decoder reads the tokens up to the last one and predicts those after the first. Where it reads
what the loss compares with, unshifted, a causal mask does not help: each position sees its own answer. The loss falls
to nothing in a few steps, and what is generated is nonsense.

Measured on torch 2.13 (`nn.Transformer` of one layer, sequences of 5 to be reversed, 800 steps): unshifted, the loss is
.0008, and none of the generated tokens is right; shifted, the loss is .0007, and all are.

## Bad
    class Translator(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(100, 64)
            self.transformer = nn.Transformer(64, batch_first=True)
            self.head = nn.Linear(64, 100)

        def forward(self, source, target, mask):
            return self.head(self.transformer(self.embed(source), self.embed(target), tgt_mask=mask))

    translator = Translator()
    for source, target in loader:
        scores = translator(source, target, mask)
        loss = F.cross_entropy(scores.view(-1, 100), target.view(-1))

## Good
    class Translator(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(100, 64)
            self.transformer = nn.Transformer(64, batch_first=True)
            self.head = nn.Linear(64, 100)

        def forward(self, source, target, mask):
            return self.head(self.transformer(self.embed(source), self.embed(target), tgt_mask=mask))

    translator = Translator()
    for source, target in loader:
        scores = translator(source, target[:, :-1], mask)
        loss = F.cross_entropy(scores.reshape(-1, 100), target[:, 1:].reshape(-1))

## Not reported
Decoders whose input is cut, joined with a start token or otherwise not followed to the end; models of transformers that
get `labels` alone, which they shift; targets that the decoder does not read.

## On real code
75 public repositories that load models of transformers or build a `nn.Transformer`: no finding.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from functools import partial

from dllint.api import Context, Event, Finding, LossCall, ModelForward, Rule, Site, Symbol, Value

_LOSSES = ("torch.nn.functional.cross_entropy", "torch.nn.functional.nll_loss")
_DECODERS = {"torch.nn.Transformer()": 1, "torch.nn.TransformerDecoder()": 0}  # and where their input stands
_KEEPING = frozenset(
    (".view", ".reshape", ".flatten", ".contiguous", ".clone", ".long", ".to", ".cuda", ".transpose", ".permute", ".t",
     ".squeeze", "torch.reshape", "torch.flatten", "torch.clone", "torch.transpose", "torch.squeeze")
)  # fmt: skip
_EMBEDDING = frozenset(
    ("torch.nn.Embedding()", "torch.nn.Dropout()", "torch.nn.Linear()", "torch.nn.LayerNorm()", "*", "+")
)
_MADE_UP = ("torch.zeros", "torch.ones")  # to try a model out
_MAX_STEPS = 60


class DecoderInputEqualsLabels(Rule):
    code = "DL916"
    name = "decoder-input-equals-labels"
    category = "correctness"
    severity = "error"
    triggers = (("Transformer", "TransformerDecoder", "decoder_input_ids"),)
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.Transformer.html",)

    def on_model_forward(self, event: ModelForward, ctx: Context) -> Iterator[Finding]:
        read = event.arguments.keywords.get("decoder_input_ids")
        labels = event.arguments.keywords.get("labels")
        if read is None or labels is None or ctx.is_none(labels) or not ctx.goes_backward(event.result):
            return
        if _same_tokens(read) is _same_tokens(labels):
            yield self._report(event, event.site, ctx)

    def on_loss_call(self, event: LossCall, ctx: Context) -> Iterator[Finding]:
        if event.loss not in _LOSSES or event.input is None or event.target is None:
            return
        wanted = _same_tokens(event.target)
        if any(isinstance(each, Symbol) and each.name in _MADE_UP for each in ctx.sources(wanted)):
            return
        for origin in ctx.origins(event.input):
            for value in ctx.sources(origin.value):
                position = _DECODERS.get(value.name) if isinstance(value, Symbol) else None
                read = (
                    ctx.argument(value, position, "tgt") if isinstance(value, Symbol) and position is not None else None
                )
                if read is not None and value.site is not None and _is_embedded(wanted, read, ctx):
                    assumed = ctx.assumed_of_computation(origin.value, partial(operator.is_, value))
                    yield self._report(event, value.site, ctx, origin, *assumed)
                    return

    def _report(self, event: Event, decoder: Site, ctx: Context, *on: object) -> Finding:
        return ctx.finding(
            self,
            event,
            "the decoder reads the very tokens that it is to predict",
            on=on,
            effect="each position sees its own answer: the loss falls to nothing, and nothing is learned",
            help="give the decoder `target[:, :-1]`, and the loss `target[:, 1:]`",
            trace=[(decoder, "the decoder reads the target"), (event.site, "and is compared with it, unshifted")],
        )


def _same_tokens(value: Value) -> Value:
    """What tokens were before operations that leave each at its position."""
    for _ in range(_MAX_STEPS):
        if not isinstance(value, Symbol) or value.name not in _KEEPING or not value.inputs:
            return value
        value = value.inputs[0]
    return value


def _is_embedded(tokens: Value, read: Value, ctx: Context) -> bool:
    """Whether what a decoder reads is tokens at their own positions, embedded and with their positions added."""
    pending, seen = [read], set[int]()
    for value in pending:  # which grows meanwhile
        if value is tokens:
            return True
        if id(value) in seen or len(seen) > _MAX_STEPS or not isinstance(value, Symbol):
            continue
        seen.add(id(value))
        if value.name in _KEEPING | _EMBEDDING:
            pending.extend(value.inputs)
        elif value.name in ("forward", "call") and _adds_positions(value, ctx):
            pending.extend(value.inputs[1:])
    return False


def _adds_positions(value: Symbol, ctx: Context) -> bool:
    """Whether a module is one for positions or embeddings, as its class or its name says."""
    names = (ctx.class_name(value.inputs[0]), ctx.name_of(value.inputs[0])) if value.inputs else ()
    return any(word in name.lower() for name in names for word in ("pos", "pe", "embed"))
