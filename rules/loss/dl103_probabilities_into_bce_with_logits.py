"""Sigmoid or softmax output passed to a loss that applies the sigmoid itself.

`binary_cross_entropy_with_logits`, `BCEWithLogitsLoss`, `multilabel_soft_margin_loss` and `sigmoid_focal_loss` expect
logits. Given probabilities they run without complaint, but a number between 0 and 1 is a logit that hardly ever says
no: the predicted probability stays between .5 and .73 and the loss between .313 and 1.313.

Measured on torch 2.13: a negative sample costs at least .693. With 5 % positives the recall is 0.000 instead of .659,
and the loss rests at .694. With balanced classes the accuracy hides it (.962 instead of .9685).

## Bad
    loss = F.binary_cross_entropy_with_logits(torch.sigmoid(model(x)), y)
    loss.backward()

## Good
    loss = F.binary_cross_entropy_with_logits(model(x), y)
    loss.backward()

## Not reported
Sigmoid on the *target*, a sigmoid whose result only goes into metrics or into another loss (Dice, focal), a model that
applies it only outside training or when a flag that is not set asks for it, and probabilities that are scaled before
they reach the loss. Differences of probabilities, as in a relativistic GAN whose discriminator ends in a sigmoid, are
reported as `likely`: they lie between -1 and 1, so the loss is squashed all the same.

## Fix (unsafe)
Passes the sigmoid's own input where the two are in one file and nothing is between them; a layer is taken out where it
is the last of a `Sequential` or of a list, or appended by itself. Unsafe because it changes the gradients, and because
other callers of the model may read its probabilities: they need the sigmoid at their end.

## On real code
742 public repositories: 4 findings in 2 of them, all true: recommenders and a tagger that end in a sigmoid.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import (
    Assumptions,
    Class,
    Const,
    Context,
    Edits,
    Finding,
    Instance,
    LossCall,
    Origin,
    Rule,
    Symbol,
    Value,
    judge,
    remove_operation,
)

_NOT_BINARY = ("torch.nn.functional.cross_entropy", "torch.nn.functional.linear_cross_entropy")
_AVERAGES = ("torch.mean", ".mean", "negative")


class ProbabilitiesIntoBceWithLogits(Rule):
    code = "DL103"
    name = "probabilities-into-bce-with-logits"
    category = "correctness"
    severity = "error"
    triggers = (
        (
            "binary_cross_entropy_with_logits",
            "BCEWithLogitsLoss",
            "multilabel_soft_margin_loss",
            "MultiLabelSoftMarginLoss",
            "sigmoid_focal_loss",
        ),
        ("sigmoid", "sigmoid_", "Sigmoid", "expit", "hardsigmoid", "Hardsigmoid", "softmax", "Softmax", "Softmax2d"),
    )
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html",)

    def on_loss_call(self, event: LossCall, ctx: Context) -> Iterator[Finding]:
        if ctx.facts.loss_inputs.get(event.loss) != "logits" or event.loss in _NOT_BINARY or event.input is None:
            return
        wrong = lambda origin: _source(origin.value, ctx) is not None  # noqa: E731
        verdict = judge(ctx.origins(event.input), wrong, event.guards)
        if verdict is None:
            return
        bad, assumed = verdict
        direct = [origin for origin in bad if ctx.kind(origin.value) == "probabilities"]
        yield self._report(event, direct[0] if direct else bad[0], assumed, ctx)

    def _report(self, event: LossCall, origin: Origin, assumed: Assumptions, ctx: Context) -> Finding:
        source = _source(origin.value, ctx)
        assert source is not None and source.site is not None
        function = source.name.rpartition(".")[2].removesuffix("()")
        return ctx.finding(
            self,
            event,
            f"`{function}` output passed to `{_loss_name(event)}`, which applies the sigmoid itself",
            effect="the predicted probability cannot leave .5 to .73: rare positives are never found, and the loss "
            "rests near .69",
            help=f"pass the logits: remove the `{function}` from the training path",
            trace=[
                (source.site, f"`{function}` is applied here"),
                *reversed(origin.hops),
                (event.site, "the loss receives it"),
            ],
            fix=("Pass the input of the sigmoid instead", _without_sigmoid(origin, source)),
            assuming=[*assumed, *ctx.assumed_use(event.result, "the loss")],
        )


def _without_sigmoid(origin: Origin, source: Symbol) -> Edits:
    """Only a sigmoid that goes straight into the loss has the logit of the same event as its input."""
    return remove_operation(source) if source is origin.value and "igmoid" in source.name else Edits()


def _loss_name(event: LossCall) -> str:
    criterion = event.criterion
    if not isinstance(criterion, Instance):
        return event.loss.rpartition(".")[2]
    return criterion.cls.name if isinstance(criterion.cls, Class) else criterion.cls.rpartition(".")[2]


def _source(value: Value, ctx: Context, depth: int = 0) -> Symbol | None:
    """The operation that makes probabilities, behind differences and means of them, which lie between -1 and 1."""
    if ctx.kind(value) == "probabilities" and isinstance(value, Symbol):
        return value
    if not isinstance(value, Symbol) or depth > 3:
        return None
    if value.name in _AVERAGES and value.inputs:
        return _source_of_all(value.inputs[0], ctx, depth)
    if value.name != "-":
        return None
    found = [_source_of_all(part, ctx, depth) for part in value.inputs if not _is_fraction(part)]
    return found[0] if found and None not in found else None


def _source_of_all(value: Value, ctx: Context, depth: int) -> Symbol | None:
    """The operation behind a value, if all that it can be are probabilities or differences of them."""
    found = [_source(origin.value, ctx, depth + 1) for origin in ctx.origins(value)]
    return found[0] if found and None not in found else None


def _is_fraction(value: Value) -> bool:
    return isinstance(value, Const) and isinstance(value.value, int | float) and abs(value.value) <= 1
