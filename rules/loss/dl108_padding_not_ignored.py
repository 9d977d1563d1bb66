"""Padding that the loss counts as a class.

Sequences of different length are padded to one length before they make a batch. Unless the loss is told which label
stands for padding (`ignore_index`, -100 by default), the model is trained to predict it: at first the padding costs as
much as real tokens, later it is learned and makes the loss look small.

Measured on torch 2.13 (77 to 81 % padding, 200 steps): the loss on real tokens ends at 1.271 instead of 1.011 with SGD
and at 1.090 instead of .969 with Adam, while the loss that is shown is .347. A Hugging Face model that is given
`labels=input_ids` of a padded batch does the same.

## Bad
    y = pad_sequence(ys, batch_first=True, padding_value=0)
    loss = F.cross_entropy(logits.transpose(1, 2), y)
    loss.backward()

## Good
    y = pad_sequence(ys, batch_first=True, padding_value=-100)
    loss = F.cross_entropy(logits.transpose(1, 2), y)
    loss.backward()

## Not reported
An `ignore_index` or a padding value that is not known; losses with class weights or `reduction="none"`, which leave
padding out by other means; targets that are packed, indexed with a mask or written to (`labels[labels == pad] = -100`)
on the way; padding with an end-of-sequence token (a question, where a tokenizer may do so); batches of one sequence,
which is not padded; labels for a model that is not of a library; evaluation.

## Fix (unsafe)
Adds `ignore_index`, where the padding value is a number. Unsafe because it changes the loss, as it should.

## On real code
742 public repositories: no finding. A bug of this kind that was written into one of them is found.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import (
    Assumption,
    Class,
    Const,
    Context,
    Edits,
    Finding,
    Instance,
    LossCall,
    ModelForward,
    Padding,
    Rule,
    Site,
    Value,
    alternatives,
    set_argument,
)

_LOSSES = ("torch.nn.functional.cross_entropy", "torch.nn.functional.nll_loss")
_IGNORED = -100
_EFFECT = "the model learns to predict padding: the loss looks small, and real tokens are learned worse"


def computed_in_evaluation(event: LossCall | ModelForward, padding: Padding, ctx: Context) -> bool:
    """the loss is computed in evaluation"""
    return event.grad == "off" or ctx.phase(event).is_evaluation


def left_out_by_other_means(event: LossCall | ModelForward, padding: Padding, ctx: Context) -> bool:
    """weights of classes, or a mask over single losses, may leave the padding out"""
    if isinstance(event, ModelForward):
        return False
    weight, reduction, reduce = (event.options.get(name) for name in ("weight", "reduction", "reduce"))
    is_single = reduction is not None and ctx.constant(reduction) not in ("mean", "sum")
    return (weight is not None and not ctx.is_none(weight)) or is_single or reduce is not None


def ignored(event: LossCall | ModelForward, padding: Padding, ctx: Context) -> bool:
    """the loss ignores the padding, or either of the two numbers is not known"""
    number = ctx.constant(_ignored_by(event))
    if not isinstance(number, int | float):
        return True
    value = ctx.constant(padding.value)
    if isinstance(value, int | float):
        return value == number
    is_padding = padding.value is None or ctx.speaks_of("padding", *_names(padding.value, ctx))
    return number != _IGNORED or not is_padding


def meant_for_the_loss(event: LossCall | ModelForward, padding: Padding, ctx: Context) -> bool:
    """the padding is, by its name, a label to be ignored or the end of a sequence"""
    is_named = padding.value is not None and ctx.constant(padding.value) is None
    return is_named and ctx.speaks_of("ignored-label", *_names(padding.value, ctx))


def has_nothing_to_pad(event: LossCall | ModelForward, padding: Padding, ctx: Context) -> bool:
    """batches of one sequence are not padded to the longest of them"""
    return padding.to_longest and ctx.has_batches_of_one(event)


class PaddingNotIgnored(Rule):
    code = "DL108"
    name = "padding-not-ignored"
    category = "suspicious"
    severity = "warning"
    triggers = (
        ("cross_entropy", "CrossEntropyLoss", "nll_loss", "NLLLoss", "labels"),
        (
            *("pad_sequence", "padding", "pad_to_max_length", "zeros", "full", "tensor", "as_tensor", "LongTensor"),
            *("stack", "vstack", "array"),
        ),
    )
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html",)
    excuses = (computed_in_evaluation, left_out_by_other_means, ignored, meant_for_the_loss, has_nothing_to_pad)

    def __init__(self) -> None:
        self._reported: list[Value] = []

    def on_loss_call(self, event: LossCall, ctx: Context) -> Iterator[Finding]:
        if event.loss not in _LOSSES or event.target is None or any(event.criterion is c for c in self._reported):
            return
        padding = ctx.padding(event.target)
        if padding is None or ctx.excused(self, event, padding):
            return
        if event.criterion is not None:
            self._reported.append(event.criterion)
        yield self._report(event, padding, ctx)

    def on_model_forward(self, event: ModelForward, ctx: Context) -> Iterator[Finding]:
        labels = event.arguments.keywords.get("labels")
        padding = ctx.padding(labels) if labels is not None and _is_of_transformers(event.model, ctx) else None
        if padding is not None and not ctx.excused(self, event, padding):
            yield self._report_labels(event, padding, ctx)

    def _report(self, event: LossCall, padding: Padding, ctx: Context) -> Finding:
        value = ctx.constant(padding.value)
        is_number = isinstance(value, int | float)
        made = event.criterion.site if isinstance(event.criterion, Instance) else event.site
        edits = set_argument(made, "ignore_index", f"{value:g}") if made is not None and is_number else Edits()
        return ctx.finding(
            self,
            event,
            f"the targets are padded{f' with {value:g}' if is_number else ''}, and the loss counts padding as a class",
            on=[padding, padding.value, event.options.get("ignore_index")],
            assuming=[*_assumed_of_value(padding, ctx), *ctx.assumed_use(event.result, "the loss")],
            effect=_EFFECT,
            help="pass `ignore_index` with the padding value, or pad the targets with -100",
            trace=_trace_of_padding(padding, event.site),
            fix=("Ignore the padding", edits),
        )

    def _report_labels(self, event: ModelForward, padding: Padding, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            event,
            "`labels` holds padding tokens, and the model's loss ignores only -100",
            on=[padding, padding.value],
            assuming=[*_assumed_of_value(padding, ctx), *ctx.assumed_use(event.result, "the loss")],
            effect=_EFFECT,
            help="set the labels of padding to -100: `labels[attention_mask == 0] = -100`",
            trace=_trace_of_padding(padding, event.site),
        )


def _ignored_by(event: LossCall | ModelForward) -> Value:
    """The label that a loss ignores; inside the models of transformers it is torch's default."""
    return event.options.get("ignore_index", Const(_IGNORED)) if isinstance(event, LossCall) else Const(_IGNORED)


def _names(value: Value | None, ctx: Context) -> tuple[str, ...]:
    return (str(getattr(value, "detail", "")), ctx.name_of(value)) if value is not None else ()


def _assumed_of_value(padding: Padding, ctx: Context) -> list[Assumption]:
    """That something is padding where no number says so."""
    if padding.value is None:
        if ctx.has_own_padding(padding.tokenizer):
            return []
        return [Assumption("opaque", "the tokenizer pads with a token that stands for nothing else")]
    if ctx.constant(padding.value) is None:
        return [Assumption("name", f"{ctx.called(padding.value, 'value')} is what padding is, as its name says")]
    return []


def _trace_of_padding(padding: Padding, loss: Site) -> list[tuple[Site, str]]:
    padded = [(padding.site, "sequences are padded here")] if padding.site is not None else []
    return [*padded, (loss, "the loss averages over them, too")]


def _is_of_transformers(model: Value, ctx: Context) -> bool:
    """Whether a model is one of the library, whose loss ignores -100 and nothing else."""
    options = [option for value in ctx.objects(model) for _, option in alternatives(value)]
    return bool(options) and all(
        isinstance(option, Instance)
        and not isinstance(option.cls, Class)
        and option.library_name.startswith(("transformers.", "peft."))
        for option in options
    )
