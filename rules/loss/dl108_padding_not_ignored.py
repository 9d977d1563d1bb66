"""Padding that the loss counts as a class.

Sequences of different length are padded to one length before they make a batch. Unless the loss is told which label
stands for padding (`ignore_index`, -100 by default), the model is trained to predict it: at first the padding costs as
much as real tokens, later it is learnt and makes the loss look small.

Measured on torch 2.13 (77 to 81 % padding, 200 steps): the loss on real tokens ends at 1.271 instead of 1.011 with SGD
and at 1.090 instead of .969 with Adam, while the loss that is shown is .347. A Hugging Face model that is given
`labels=input_ids` of a padded batch does the same.

## Bad
    y = pad_sequence(ys, batch_first=True, padding_value=0)
    loss = F.cross_entropy(logits.transpose(1, 2), y)

## Good
    y = pad_sequence(ys, batch_first=True, padding_value=-100)
    loss = F.cross_entropy(logits.transpose(1, 2), y)

## Not reported
An `ignore_index` or a padding value that is not known; losses with class weights or `reduction="none"`, which leave
padding out by other means; targets that are packed, indexed with a mask or written to (`labels[labels == pad] = -100`)
on the way; padding with an end-of-sequence token; labels for a model that is not of a library; evaluation.

## Fix (unsafe)
Adds `ignore_index`, where the padding value is a number. Unsafe because it changes the loss, as it should.

## On real code
742 public repositories: no finding. A bug of this kind that was written into one of them is found.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from dllint.api import (
    Assumption,
    Choice,
    Class,
    Const,
    Context,
    Finding,
    Instance,
    Items,
    LossCall,
    ModelForward,
    Rule,
    Site,
    Symbol,
    Value,
    alternatives,
    offer,
    set_argument,
)

_LOSSES = ("torch.nn.functional.cross_entropy", "torch.nn.functional.nll_loss")
_PAD_SEQUENCE = "torch.nn.utils.rnn.pad_sequence"
_MADE_OF_LISTS = ("torch.tensor", "torch.as_tensor", "torch.LongTensor", "numpy.array")
_STACKS = ("torch.stack", "torch.vstack")
_FILLED = ("torch.zeros", "torch.full")
_PADDING = re.compile(r"pad", re.IGNORECASE)
_ON_PURPOSE = re.compile(r"ignore|label|eos|end", re.IGNORECASE)
_ROWS = re.compile(r"\(?\w+, :[^:,]+\)?")
_MAX_STEPS = 40
_IGNORED = -100


@dataclass(frozen=True)
class Padding:
    """Where sequences are padded, and with what (``None``: with the padding token of a tokenizer)."""

    site: Site | None
    value: Value | None
    certain: bool = True


class PaddingNotIgnored(Rule):
    code = "DL108"
    name = "padding-not-ignored"
    category = "suspicious"
    severity = "warning"
    triggers = (
        ("cross_entropy", "CrossEntropyLoss", "nll_loss", "NLLLoss", "labels"),
        (
            "pad_sequence",
            "padding",
            "pad_to_max_length",
            "zeros",
            "full",
            "tensor",
            "as_tensor",
            "LongTensor",
            "stack",
            "vstack",
            "array",
        ),
    )
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html",)

    def __init__(self) -> None:
        self._reported: list[Value] = []

    def on_loss_call(self, event: LossCall, ctx: Context) -> Iterator[Finding]:
        if event.loss not in _LOSSES or event.target is None or event.grad == "off" or _is_weighted(event, ctx):
            return
        padding = _padding_of(event.target, ctx)
        if padding is None or any(event.criterion is known for known in self._reported):
            return
        ignored = event.options.get("ignore_index", Const(_IGNORED))
        certain = _is_counted(padding, ignored, ctx)
        if certain is None:
            return
        if event.criterion is not None:
            self._reported.append(event.criterion)
        yield self._report(event, padding, certain and padding.certain, ctx)

    def on_model_forward(self, event: ModelForward, ctx: Context) -> Iterator[Finding]:
        labels = event.arguments.keywords.get("labels")
        if labels is None or event.grad == "off" or not _is_of_transformers(event.model, ctx):
            return
        padding = _padding_of(labels, ctx)
        if padding is not None and _is_counted(padding, Const(_IGNORED), ctx) is not None:
            yield self._report_labels(event, padding, ctx)

    def _report(self, event: LossCall, padding: Padding, certain: bool, ctx: Context) -> Finding:
        value = ctx.constant(padding.value)
        is_number = isinstance(value, int | float)
        made = event.criterion.site if isinstance(event.criterion, Instance) else event.site
        edits = set_argument(made, "ignore_index", f"{value:g}") if made is not None and is_number else ()
        trace = [(padding.site, "sequences are padded here")] if padding.site is not None else []
        return ctx.finding(
            self,
            event,
            f"the targets are padded{f' with {value:g}' if is_number else ''}, and the loss counts padding as a class",
            effect="the model learns to predict padding: the loss looks small, and real tokens are learnt worse",
            help="pass `ignore_index` with the padding value, or pad the targets with -100",
            trace=[*trace, (event.site, "the loss averages over them, too")],
            fixes=offer("Ignore the padding", edits, "unsafe", of=made, at=event.site) if made is not None else [],
            assuming=[] if certain else [Assumption("name", "the padding is what its name says")],
        )

    def _report_labels(self, event: ModelForward, padding: Padding, ctx: Context) -> Finding:
        trace = [(padding.site, "sequences are padded here")] if padding.site is not None else []
        return ctx.finding(
            self,
            event,
            "`labels` holds padding tokens, and the model's loss ignores only -100",
            effect="the model learns to predict padding: the loss looks small, and real tokens are learnt worse",
            help="set the labels of padding to -100: `labels[attention_mask == 0] = -100`",
            trace=[*trace, (event.site, "the loss averages over them, too")],
            assuming=[Assumption("opaque", "the tokenizer pads, and the model does not ignore the padding itself")],
        )


def _is_weighted(event: LossCall, ctx: Context) -> bool:
    """Whether the padding may be left out by other means: weights of classes, or a mask over single losses."""
    weight, reduction, reduce = (event.options.get(name) for name in ("weight", "reduction", "reduce"))
    if weight is not None and not (isinstance(weight, Const) and weight.value is None):
        return True
    return (reduction is not None and ctx.constant(reduction) not in ("mean", "sum")) or reduce is not None


def _is_counted(padding: Padding, ignored: Value, ctx: Context) -> bool | None:
    """``True`` if the padding is certainly not what is ignored, ``False`` if that is likely, ``None`` if it may be."""
    number = ctx.constant(ignored)
    if not isinstance(number, int | float):
        return None
    if padding.value is None:
        return False if number == _IGNORED else None
    value = ctx.constant(padding.value)
    if isinstance(value, int | float):
        return None if value == number else not ctx.is_setting(padding.value)
    name = f"{getattr(padding.value, 'detail', '')} {ctx.name_of(padding.value)}"
    is_token = bool(_PADDING.search(name)) and not _ON_PURPOSE.search(name)
    return False if is_token and number == _IGNORED else None


# ------------------------------------------------------------------------------------------- where targets come from


def _padding_of(value: Value, ctx: Context) -> Padding | None:
    """The padding of a batch of targets, if it reaches them unchanged."""
    for _ in range(_MAX_STEPS):
        if isinstance(value, Choice):
            found = [_padding_of(option, ctx) for _, option in value.options]
            return found[0] if all(found) else None
        filled = _filled(value, ctx)
        if filled is not None:
            return filled
        if _is_written(value):
            return None
        made = _made_here(value, ctx)
        if made is not None:
            return made
        before = _before(value, ctx)
        if before is None:
            return None
        value = before
    return None


def _is_written(value: Value) -> bool:
    """Whether some items of a tensor are set, as in ``labels[labels == pad] = -100``."""
    held = value.attributes.items() if isinstance(value, Symbol | Instance) else ()
    return any(name.startswith("[") and not _is_read(kept) for name, kept in held)


def _is_read(kept: Value) -> bool:
    """Whether an item that is kept with a tensor was read from it, rather than set."""
    return all(isinstance(option, Symbol) and option.name == "item" for _, option in alternatives(kept))


def _before(value: Value, ctx: Context) -> Value | None:
    """The value one step nearer to the padding, behind what changes neither numbers nor which of them are there."""
    if not isinstance(value, Symbol) or not value.inputs:
        return None
    name, base = value.name, value.inputs[0]
    if name == "slice":
        return base
    if name == "item":
        return base if len(value.inputs) > 1 and _is_plain_index(value.inputs[1]) else None
    if name == "attribute":
        return base if value.detail in ("data", "T", "mT") else None
    if name in ctx.facts.packed:
        return None  # packing leaves the padding out
    is_shape = name[1:] in ctx.facts.shape_only_methods if name.startswith(".") else name in ctx.facts.shape_only
    return base if is_shape or name == "torch.autograd.Variable" else None


def _is_plain_index(index: Value) -> bool:
    """Whether an index takes a part of a tensor by place, and not by a mask."""
    if isinstance(index, Items):
        return all(_is_plain_index(part) for part in index.items)
    if isinstance(index, Const):
        return not isinstance(index.value, str)
    if not isinstance(index, Symbol):
        return False
    return index.name == "counter" or (index.site is not None and isinstance(index.site.node, ast.Slice))


def _made_here(value: Value, ctx: Context) -> Padding | None:
    """The padding that an operation does."""
    tokens = _tokens(value, ctx)
    if tokens is not None:
        return Padding(tokens.site, None, certain=False)
    name = value.library_name if isinstance(value, Instance) else getattr(value, "name", "")
    if not isinstance(value, Symbol | Instance) or value.arguments is None:
        return None
    if name == _PAD_SEQUENCE:
        return Padding(value.site, value.arguments.get(2, "padding_value") or Const(0))
    first = value.arguments.get(0, None)
    rows = first.items if isinstance(first, Items) else ()
    if name in _STACKS:
        found = [_padded_row(row) for row in rows]
    elif name in _MADE_OF_LISTS:
        found = [_padded_list(row) for row in rows]
    else:
        return None
    return found[0] if found and all(found) else None


def _padded_row(row: Value) -> Padding | None:
    """``F.pad(y, (0, n - len(y)), value=c)``."""
    if not isinstance(row, Symbol) or row.name != "torch.nn.functional.pad" or row.arguments is None:
        return None
    mode = row.arguments.get(2, "mode")
    if mode is not None and not (isinstance(mode, Const) and mode.value == "constant"):
        return None
    return Padding(row.site, row.arguments.get(3, "value") or Const(0), certain=False)


def _padded_list(row: Value) -> Padding | None:
    """``y + [c] * (n - len(y))``."""
    if not isinstance(row, Symbol) or row.name != "+" or len(row.inputs) != 2:
        return None
    tail = row.inputs[1]
    if isinstance(tail, Items) and not tail.exact and len(tail.items) == 1:
        return Padding(tail.site, tail.items[0])
    return None


def _filled(value: Value, ctx: Context) -> Padding | None:
    """``torch.zeros(len(ys), longest)`` into whose rows sequences of their own length are written."""
    written = value.attributes if isinstance(value, Symbol) else {}
    if not any(_ROWS.fullmatch(name[1:-1]) and isinstance(held, Symbol) for name, held in written.items()):
        return None
    made: Value | None = value
    while isinstance(made, Symbol) and made.name not in _FILLED:
        made = _before(made, ctx)
    if not isinstance(made, Symbol) or made.arguments is None:
        return None
    fill = made.arguments.get(1, "fill_value") if made.name == "torch.full" else Const(0)
    return Padding(made.site, fill, certain=False) if fill is not None else None


def _tokens(value: Value, ctx: Context) -> Symbol | None:
    """The call of a tokenizer that pads, if a value is the token numbers that it returns."""
    is_item = isinstance(value, Symbol) and value.name in ("item", "attribute") and value.detail == "input_ids"
    base = value.inputs[0] if is_item and isinstance(value, Symbol) else None
    while isinstance(base, Symbol) and base.name == ".to":
        base = base.inputs[0]
    if not isinstance(base, Symbol) or base.arguments is None or not _is_tokenizer(base, ctx):
        return None
    keywords = base.arguments.keywords
    pads = [ctx.constant(keywords[name]) for name in ("padding", "pad_to_max_length") if name in keywords]
    return base if any(flag in (True, "longest", "max_length") for flag in pads) else None


def _is_tokenizer(call: Symbol, ctx: Context) -> bool:
    for callee in ctx.objects(call.inputs[0]) if call.inputs else ():
        name = callee.library_name if isinstance(callee, Instance) else ctx.name_of(callee)
        if "token" in name.lower():
            return True
    return False


def _is_of_transformers(model: Value, ctx: Context) -> bool:
    """Whether a model is one of the library, whose loss ignores -100 and nothing else."""
    options = [option for value in ctx.objects(model) for _, option in alternatives(value)]
    return bool(options) and all(
        isinstance(option, Instance)
        and not isinstance(option.cls, Class)
        and option.library_name.startswith(("transformers.", "peft."))
        for option in options
    )
