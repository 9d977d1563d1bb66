"""A sigmoid followed by binary cross-entropy, instead of the loss that has both in it.

Where the sigmoid rounds to 0 or 1, it passes on no gradient: the most confident mistakes are never corrected.
`binary_cross_entropy_with_logits` computes both in one step and does correct them. As long as nothing saturates, the
two train the same.

Measured on torch 2.13: in float32 the sigmoid rounds to 1 from a logit of 16.65 on, in bfloat16 from 6.25 and in
float16 from 8.35 on. With a logit of 17 for a negative sample the loss is 100 and its gradient 0 (with logits: 17, and
1). Begun with a bias of 30, training stays at a loss of 54.8 (.037 with logits). In float16 gradients are `nan` from 10
on, and under autocast on CUDA torch raises. In ordinary training both end at a loss of .0834.

## Bad
    loss = F.binary_cross_entropy(torch.sigmoid(model(x)), y)
    loss.backward()

## Good
    loss = F.binary_cross_entropy_with_logits(model(x), y)
    loss.backward()

## Not reported
Probabilities that come from something else than a sigmoid, or only under a condition; losses that nothing is trained
with. It is a note, as it hurts only where something saturates; where the loss is computed under `autocast`, an error.

## Fix (unsafe)
Passes the logits to the loss that takes them, where the sigmoid is applied in the call of the loss. Unsafe because the
last bits of the loss differ.

## On real code
138 public repositories: 34 findings in 14 of them, all true as the notes that they are; most are adversarial networks
and autoencoders, which train well as long as nothing saturates.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Assumptions,
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
    rename_call,
    together,
)

_LOSS = "torch.nn.functional.binary_cross_entropy"
_SIGMOID = frozenset(("torch.sigmoid", ".sigmoid", ".sigmoid_", "torch.nn.Sigmoid()", "torch.special.expit"))


def trains_nothing(event: LossCall, ctx: Context) -> bool:
    """gradients are off: nothing is trained with this loss"""
    return event.grad == "off" or ctx.phase(event).is_evaluation


class SigmoidBeforeBce(Rule):
    code = "DL102"
    name = "sigmoid-before-bce"
    category = "suspicious"
    severity = "info"
    triggers = (("binary_cross_entropy", "BCELoss"), ("sigmoid", "sigmoid_", "Sigmoid", "expit"))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html",)
    excuses = (trains_nothing,)

    def on_loss_call(self, event: LossCall, ctx: Context) -> Iterator[Finding]:
        if event.loss != _LOSS or event.input is None or ctx.excused(self, event):
            return
        verdict = judge(ctx.origins(event.input), lambda origin: _is_sigmoid(origin.value), event.guards)
        if verdict is not None:
            yield self._report(event, verdict[0][0], verdict[1], ctx)

    def _report(self, event: LossCall, origin: Origin, assumed: Assumptions, ctx: Context) -> Finding:
        mixed = "autocast" in event.contexts
        place = [(origin.value.site, "the sigmoid is applied here")] if origin.value.site is not None else []
        return ctx.finding(
            self,
            event,
            "binary cross-entropy of a sigmoid loses the gradient where the sigmoid is saturated",
            severity="error" if mixed else None,
            effect="torch raises on CUDA, as this is not safe under autocast"
            if mixed
            else "mistakes made with a logit of 17 or more are never corrected (from 6 in bfloat16)",
            help="pass the logits to `binary_cross_entropy_with_logits` or `BCEWithLogitsLoss`",
            trace=[*place, *reversed(origin.hops), (event.site, "the loss receives it")],
            fix=("Pass the logits", _with_logits(event, origin)),
            assuming=assumed,
        )


def _is_sigmoid(value: Value) -> bool:
    return isinstance(value, Symbol) and value.name in _SIGMOID


def _with_logits(event: LossCall, origin: Origin) -> Edits:
    """``F.binary_cross_entropy(torch.sigmoid(x), y)``, or the same with a criterion that is made in this file."""
    call, sigmoid = event.site.node, origin.value
    given = [*call.args, *(keyword.value for keyword in call.keywords)] if isinstance(call, ast.Call) else []
    if not isinstance(sigmoid, Symbol) or sigmoid.site is None or not any(each is sigmoid.site.node for each in given):
        return Edits()
    criterion = event.criterion
    if criterion is None:
        renamed = rename_call(event.site, "binary_cross_entropy_with_logits")
    elif isinstance(criterion, Instance) and criterion.cls == "torch.nn.BCELoss" and criterion.site is not None:
        renamed = rename_call(criterion.site, "BCEWithLogitsLoss")
    else:
        return Edits()
    return together(renamed, remove_operation(sigmoid))
