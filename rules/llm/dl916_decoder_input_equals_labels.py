"""A decoder that is given the tokens which it is to predict, each at its own position.

With teacher forcing a decoder reads the tokens up to the last one and predicts those after the first. Where it reads
what the loss compares with, unshifted, a causal mask does not help: each position sees its own answer. The loss falls
to nothing in a few steps, and what is generated is nonsense.

Measured on torch 2.13 (`nn.Transformer` of one layer, sequences of 5 to be reversed, 800 steps): unshifted, the loss is
.0008, and none of the generated tokens is right; shifted, the loss is .0007, and all are.

The same comes of a dataset that makes `decoder_input` and `label` in one way, both with the start token in front: the
label has the end token after them instead.

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
Decoders whose input is cut at its start, joined with a start token or otherwise not followed to the end; scores that
something is joined to, as those of a first token; modules of the project that get no mask made by `triu` or `tril`,
which may be no decoders; models of transformers that get `labels` alone, which they shift; targets that the decoder
does not read; parts of a batch that a list is made of in one expression, which cannot be told apart.

## On real code
75 public repositories that load models of transformers or build a `nn.Transformer`: no finding. In 363 others, after
losses written by hand were added, 1 finding: it was false, as scores of a first token were put in front, and is silent.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Iterator, Sequence
from functools import partial

from dllint.api import (
    Assumption,
    Choice,
    Class,
    Const,
    Context,
    Event,
    External,
    Finding,
    Instance,
    Items,
    LossCall,
    ModelForward,
    Rule,
    Setting,
    Site,
    Symbol,
    Value,
    attribute_of,
)

_LOSSES = ("torch.nn.functional.cross_entropy", "torch.nn.functional.nll_loss")
_DECODERS = {"torch.nn.Transformer()": 1, "torch.nn.TransformerDecoder()": 0}  # and where their input stands
_KEEPING = frozenset(
    (".view", ".reshape", ".flatten", ".contiguous", ".long", ".to", ".cuda", ".transpose", ".permute", ".t",
     ".squeeze", "torch.reshape", "torch.flatten", "torch.transpose", "torch.squeeze")
)  # fmt: skip
_CLONING = frozenset((".clone", "torch.clone"))  # for tokens of which some are then masked in place
_EMBEDDING = frozenset(
    ("torch.nn.Embedding()", "torch.nn.Dropout()", "torch.nn.Linear()", "torch.nn.LayerNorm()", "*", "+")
)
_FOLLOWED = _EMBEDDING | _KEEPING | {"torch.nn.Dropout1d()", "torch.nn.functional.dropout"}
_BLOCKS = ("torch.nn.TransformerEncoder()", "torch.nn.TransformerEncoderLayer()")
_TRIANGLES = frozenset(
    ("torch.triu", "torch.tril", ".triu", ".tril", "numpy.triu", "numpy.tril",
     "torch.nn.Transformer.generate_square_subsequent_mask", ".generate_square_subsequent_mask")
)  # fmt: skip
_OPEN = ("forward", "call", ".get")
_JOINS = ("torch.cat", "torch.concat", "torch.stack", "torch.nn.functional.pad", "torch.roll", ".roll")
_MOVED = _KEEPING | _CLONING | {"torch.tensor", "torch.as_tensor", "torch.autograd.Variable", "torch.from_numpy"}
_COMPREHENSIONS = ast.ListComp | ast.GeneratorExp | ast.SetComp
_MADE_UP = ("torch.zeros", "torch.ones")  # to try a model out
_MAX_STEPS = 60
_MAX_DEPTH = 8
_FOR_DECODER = frozenset(
    f"{whose}{between}{what}"
    for whose in ("dec", "decoder", "tgt", "trg", "target")
    for between in ("", "_")
    for what in ("in", "inp", "input", "inputs", "input_ids")
)


class DecoderInputEqualsLabels(Rule):
    code = "DL916"
    name = "decoder-input-equals-labels"
    category = "correctness"
    severity = "error"
    default = False
    preview = True
    triggers = (
        ("Transformer", "TransformerDecoder", "TransformerEncoder", "decoder_input_ids", "triu", "tril",
         "generate_square_subsequent_mask"),
    )  # fmt: skip
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.Transformer.html",)

    def on_model_forward(self, event: ModelForward, ctx: Context) -> Iterator[Finding]:
        read = event.arguments.keywords.get("decoder_input_ids")
        labels = event.arguments.keywords.get("labels")
        if read is None or labels is None or ctx.is_none(labels) or not ctx.goes_backward(event.result):
            return
        if _same_tokens(read) is _same_tokens(labels) and not _is_any_part(read):
            yield self._report(event, event.site, ctx)

    def on_loss_call(self, event: LossCall, ctx: Context) -> Iterator[Finding]:
        if event.loss not in _LOSSES or event.input is None or event.target is None:
            return
        wanted = _tokens_from_the_first(event.target)
        if _is_any_part(event.target):
            return
        if any(isinstance(each, Symbol) and each.name in _MADE_UP for each in ctx.sources(wanted)):
            return
        origins = ctx.origins(event.input)
        if _may_shift(event.input, [origin.value for origin in origins], ctx):
            return
        twin = _made_alike(wanted, ctx)
        if twin is not None:
            yield self._report_twin(event, wanted, *twin, ctx)
            return
        is_one = len(origins) == 1  # what is one of several may be of another model
        for origin in origins:
            called = _encoder_decoders(origin.value, ctx) if is_one else ()
            for decoder, read in (*called, *_decoders_behind(origin.value, wanted, ctx)):
                if decoder.site is not None and _is_embedded(wanted, read, ctx):
                    assumed = ctx.assumed_of_computation(origin.value, partial(operator.is_, decoder))
                    yield self._report(event, decoder.site, ctx, origin, *assumed)
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

    def _report_twin(self, event: LossCall, wanted: Value, name: str, read: Site, label: Site, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            label,
            f"the labels are made as `{name}` is, of which they are the same tokens at the same places",
            on=[event, wanted],
            assuming=[Assumption("name", f"a decoder reads `{name}`, as its name says")],
            effect="each position sees its own answer: the loss falls to nothing, and nothing is learned",
            help="leave the start token out of the labels, and put the end token after them",
            trace=[(read, "the decoder reads this"), (event.site, "and is compared with the same, unshifted")],
        )


def _made_alike(labels: Value, ctx: Context) -> tuple[str, Site, Site] | None:
    """The entry of the samples for a decoder, by its name, that is joined of the same parts as the labels are."""
    if not isinstance(labels, Symbol) or labels.name != "item" or len(labels.inputs) < 2:
        return None
    batch = labels.inputs[0]
    for sample in ctx.data.samples_behind(labels):
        entries = sample.entries()
        own = entries.get(labels.detail)
        for name, other in entries.items():
            is_read = isinstance(name, str) and isinstance(batch, Symbol) and batch.attribute(f"[{name!r}]") is not None
            if own is None or not is_read or name == labels.detail or name.lower() not in _FOR_DECODER:
                continue
            joined = isinstance(own, Symbol) and own.name in ("torch.cat", "torch.concat") and own is not other
            if joined and own.site is not None and other.site is not None and _is_alike(own, other, _MAX_DEPTH):
                return name, other.site, own.site
    return None


def _is_alike(one: Value, other: Value, depth: int) -> bool:
    """Whether two values are computed in the same way of the same, with nothing drawn at random."""
    if one is other:
        return True
    if isinstance(one, Const) and isinstance(other, Const):
        return type(one.value) is type(other.value) and bool(one.value == other.value)
    if isinstance(one, Items) and isinstance(other, Items):
        parts: tuple[Sequence[Value], Sequence[Value]] = (one.items, other.items)
        times = (one.times, other.times)
        is_repeated = all(each is not None for each in times) and times[0] is times[1]
        is_same = is_repeated or (one.exact and other.exact)
    elif isinstance(one, Symbol) and isinstance(other, Symbol):
        parts = (one.inputs, other.inputs)
        is_same = (one.name, one.detail) == (other.name, other.detail) and "rand" not in one.name and bool(one.inputs)
        given = [each.arguments.keywords if each.arguments is not None else {} for each in (one, other)]
        is_same = is_same and list(given[0]) == list(given[1])
        is_same = is_same and all(_is_alike(given[0][name], given[1][name], depth - 1) for name in given[0])
    else:
        return isinstance(one, External) and isinstance(other, External) and one.name == other.name
    is_same = is_same and depth > 0 and len(parts[0]) == len(parts[1])
    return is_same and all(_is_alike(a, b, depth - 1) for a, b in zip(*parts, strict=True))


def _same_tokens(value: Value, keeping: frozenset[str] = _KEEPING | _CLONING) -> Value:
    """What tokens were before operations that leave each at its position."""
    for _ in range(_MAX_STEPS):
        if not isinstance(value, Symbol) or value.name not in keeping or not value.inputs:
            return value
        value = value.inputs[0]
    return value


def _is_any_part(value: Value) -> bool:
    """Whether a value stands for any part of a batch, as `[part.to(device) for part in batch]` makes it of each."""
    for _ in range(_MAX_STEPS):
        if value.site is not None and isinstance(value.site.node, _COMPREHENSIONS):
            return True
        if not isinstance(value, Symbol) or not value.inputs or not (value.name in _MOVED or _begins_at_first(value)):
            return False
        value = value.inputs[0]
    return False


def _tokens_from_the_first(value: Value) -> Value:
    """What tokens were before operations that leave each at its position, and before some were cut off at the end."""
    for _ in range(_MAX_STEPS):
        value = _same_tokens(value, _KEEPING)
        if not isinstance(value, Symbol) or not _begins_at_first(value):
            return value
        value = value.inputs[0]
    return value


def _begins_at_first(part: Symbol) -> bool:
    """Whether a part of a tensor was cut at ends alone: `x[:, :-1]`, and not `x[:, 1:]` or `x[0]`."""
    node = part.site.node if part.site is not None and part.name in ("item", "slice") else None
    if not isinstance(node, ast.Subscript):
        return False
    indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return all(isinstance(each, ast.Slice) and each.lower is each.step is None for each in indices)


def _may_shift(scores: Value, origins: Sequence[Value], ctx: Context) -> bool:
    """Whether something is joined on the way from where scores come from, as those of a first token are in front."""
    ends = {id(origin) for origin in origins}
    pending, seen = [scores], set[int]()
    for value in pending:  # which grows meanwhile
        if id(value) in seen or id(value) in ends:
            continue
        if len(seen) > _MAX_STEPS or (isinstance(value, Symbol) and value.name in _JOINS):
            return True
        seen.add(id(value))
        pending.extend(ctx.inside(value))
    return False


def _encoder_decoders(output: Value, ctx: Context) -> Iterator[tuple[Symbol, Value]]:
    """The calls of an encoder-decoder of transformers whose scores an output is, each with the tokens that it reads."""
    owner = attribute_of(output, "logits")
    if owner is None and isinstance(output, Symbol) and output.name == "item" and output.detail in (0, "logits"):
        owner = output.inputs[0]
    options = ctx.origins(owner) if owner is not None else []
    call = options[0].value if len(options) == 1 else None
    if isinstance(call, Symbol) and call.name in ("forward", "call") and call.arguments is not None:
        read = call.arguments.keywords.get("decoder_input_ids")
        if read is not None and not _is_of_project(call):
            yield call, read


def _is_of_project(call: Symbol) -> bool:
    """Whether a class of the project is called, which may shift what it is given."""
    model = call.inputs[0] if call.inputs else None
    return isinstance(model, Instance) and isinstance(model.cls, Class)


def _decoders_behind(output: Value, tokens: Value, ctx: Context) -> Iterator[tuple[Symbol, Value]]:
    """The decoders of torch and of the project that an output comes from, each with what it reads."""
    for value in ctx.sources(output):
        position = _DECODERS.get(value.name) if isinstance(value, Symbol) else None
        read = ctx.argument(value, position, "tgt") if isinstance(value, Symbol) and position is not None else None
        if isinstance(value, Symbol) and read is not None:
            yield value, read
    for block in _masked_blocks(output, ctx):
        if _tokens_from_the_first(block.inputs[1]) is not tokens:  # which it may shift before it embeds them
            yield block, block.inputs[1]


def _masked_blocks(output: Value, ctx: Context) -> Iterator[Symbol]:
    """The blocks that an output went through which get a mask made of a triangle.

    Each passes on what its first argument is, position by position: what it attends to besides, as the memory of an
    encoder, is not followed.
    """
    pending, seen = [output], set[int]()
    for value in pending:  # which grows meanwhile
        if id(value) in seen or len(seen) > _MAX_STEPS or not isinstance(value, Symbol):
            continue
        seen.add(id(value))
        if value.name in ("forward", *_BLOCKS) and len(value.inputs) > 1:
            if any(_is_of_triangle(each, ctx) for each in value.inputs[2:]):
                yield value
            returned = ctx.inside(value)
            pending.extend((value.inputs[1], *(returned if len(returned) == 1 else ())))
        elif value.name in _FOLLOWED or (value.name == "unknown" and len(value.inputs) > 1):
            pending.extend(value.inputs)


def _is_of_triangle(mask: Value, ctx: Context) -> bool:
    """Whether a mask lets each position see itself and those before it, or those after it, whatever else it hides."""
    return any(isinstance(each, Symbol) and each.name in _TRIANGLES for each in ctx.sources_up_to(mask, _is_unsettled))


def _is_unsettled(value: Value) -> bool:
    """Whether a value is one of several, or what a module or something unresolved returns."""
    return isinstance(value, Choice | Setting) or (isinstance(value, Symbol) and value.name in _OPEN)


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
        elif _begins_at_first(value):
            pending.append(value.inputs[0])
        elif value.name in ("forward", "call") and _adds_positions(value, ctx):
            pending.extend(value.inputs[1:])
    return False


def _adds_positions(value: Symbol, ctx: Context) -> bool:
    """Whether a module is one for positions or embeddings, as its class or its name says."""
    names = (ctx.class_name(value.inputs[0]), ctx.name_of(value.inputs[0])) if value.inputs else ()
    return any(word in name.lower() for name in names for word in ("pos", "pe", "embed"))
