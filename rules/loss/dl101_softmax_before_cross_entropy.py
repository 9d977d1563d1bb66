"""Softmax or sigmoid output passed to a cross-entropy that applies log-softmax itself.

`cross_entropy` expects logits. Given probabilities it still runs and the loss still falls, but it cannot fall below
ln(e + C - 1) - 1 for C classes (1.461 for 10, 3.622 for 100), and the gradient of a confidently wrong prediction all
but vanishes.

Measured on torch 2.13: with 10 classes, test accuracy .916 instead of .792 with SGD and .896 instead of .808 with Adam
once the softmax is gone; with 100 classes .477 instead of .076. At initialization the gradient is 1/C of what it
should be, and for a prediction that is wrong with probability .99 it is .002 of it at 10 classes.

## Bad
    loss = F.cross_entropy(torch.softmax(model(x), dim=1), target)
    loss.backward()

## Good
    loss = F.cross_entropy(model(x), target)
    loss.backward()

## Not reported
Softmax on the *target* (soft labels, distillation), softmax whose result is only used for metrics, a model that
applies it only outside training or only when a flag that is not set asks for it, and losses of the project's own that
are merely called cross-entropy. `log_softmax` before cross-entropy is harmless (it is idempotent: losses differ by
0.0, gradients by 6e-8) and reported only when the rule is selected by name.

## Fix (unsafe)
Passes the softmax's own input where both are in one file; a layer is taken out where it is the last of a `Sequential`
or of a list, or appended by itself. Unsafe because it changes the gradients, and because other callers of the model
may read its probabilities: they need the softmax at their end.

## On real code
742 public repositories: 31 findings in 13 of them, all true: discriminators and classifiers that end in a softmax, and
sigmoids before the loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from dllint.api import (
    Assumptions,
    Context,
    Finding,
    LossCall,
    Origin,
    Rule,
    Symbol,
    judge,
    remove_operation,
)


class SoftmaxBeforeCrossEntropy(Rule):
    code = "DL101"
    name = "softmax-before-cross-entropy"
    category = "correctness"
    severity = "error"
    triggers = (
        ("cross_entropy", "CrossEntropyLoss"),
        ("softmax", "Softmax", "sigmoid", "Sigmoid", "Softmax2d", "log_softmax", "LogSoftmax", "gumbel_softmax"),
    )
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html",)

    def on_loss_call(self, event: LossCall, ctx: Context) -> Iterator[Finding]:
        if event.loss != "torch.nn.functional.cross_entropy" or event.input is None:
            return
        origins = ctx.origins(event.input)
        for kind in ("probabilities", "log-probabilities"):
            verdict = judge(origins, partial(_is, ctx, kind), event.guards)
            if verdict is not None:
                bad, assumed = verdict
                yield self._report(event, bad[0], kind == "log-probabilities", assumed, ctx)
                return

    def _report(self, event: LossCall, origin: Origin, harmless: bool, assumed: Assumptions, ctx: Context) -> Finding:
        assert isinstance(origin.value, Symbol) and origin.value.site is not None
        function = origin.value.name.rpartition(".")[2].removesuffix("()")
        loss = "CrossEntropyLoss" if event.criterion is not None else "cross_entropy"
        return ctx.finding(
            self,
            event,
            f"`{function}` output passed to `{loss}`, which applies log-softmax itself",
            effect="harmless: log-softmax of a log-softmax is the same, so it is only redundant"
            if harmless
            else "the loss cannot fall below a floor above zero, and hardly tells good predictions from better ones"
            if event.grad == "off"
            else "the gradients are squashed: the loss falls to a floor above zero and the model ends up less accurate",
            help=f"pass the logits: remove the `{function}` from the training path",
            trace=[
                (origin.value.site, f"`{function}` is applied here"),
                *reversed(origin.hops),
                (event.site, "the loss receives it"),
            ],
            fix=(f"Pass the input of `{function}` instead", remove_operation(origin.value)),
            severity="info" if harmless else None,
            assuming=[*assumed, *ctx.assumed_use(event.result, "the loss")],
            pedantic=harmless,
        )


def _is(ctx: Context, kind: str, origin: Origin) -> bool:
    return ctx.kind(origin.value) == kind and getattr(origin.value, "name", "") not in ("torch.log", "torch.logsigmoid")
