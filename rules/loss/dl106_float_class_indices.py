"""Class indices as floats, given to a cross-entropy.

torch reads a target of floats as a probability for each class. Class indices with one number for each sample are
refused, unless the output has one number for each sample as well: then the whole batch is taken for one sample, and its
indices for probabilities of as many classes.

Measured on torch 2.13: outputs and targets of shape (4,), both floats, give a loss of 14.5 and no error. With outputs
of shape (4, 3) the same targets raise "expected target dtype to be Long or Byte, but got Float".

## Bad
    loss = F.cross_entropy(model(x).view(-1), y.view(-1).float())
    loss.backward()

## Good
    loss = F.cross_entropy(model(x), y.view(-1).long())
    loss.backward()

## Not reported
Targets with a probability for each class; targets whose type is not known, or whose shape is not, unless the output has
one number for each sample; samples that are ranked among each other, as names or a softmax over them say.

## Fix (safe)
Casts the target with `long()`, where torch raises without it.

## On real code
276 public repositories: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Edits, Finding, LossCall, Rule, cast_argument


class FloatClassIndices(Rule):
    code = "DL106"
    name = "float-class-indices"
    category = "correctness"
    severity = "info"
    triggers = (("cross_entropy", "CrossEntropyLoss"),)
    confirmable = True
    fix_safety = "safe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html",)

    def on_loss_call(self, event: LossCall, ctx: Context) -> Iterator[Finding]:
        if event.loss != "torch.nn.functional.cross_entropy" or ctx.number_kind(event.target) != "floating":
            return
        target, output = ctx.shape(event.target), ctx.shape(event.input)
        is_silent = output is not None and output.is_row
        has_one_each = target is not None and (target.is_row or (is_silent and (target.is_batch or output.is_batch)))
        if event.target is None or not has_one_each or (is_silent and _is_ranking(event, ctx)):
            return
        made = [(event.target.site, "the target is made of floats")] if event.target.site is not None else []
        yield ctx.finding(
            self,
            event,
            "class indices are given to a cross-entropy as floats, which it reads as probabilities",
            on=[event.target],
            effect="the batch is taken for one sample with as many classes: the loss means nothing, and falls"
            if is_silent
            else "torch refuses them with an error, in the first batch",
            help="give the output one number for each class, and cast the target with `long()`"
            if is_silent
            else "cast the target with `long()`",
            trace=[*made, (event.site, "and the loss takes floats for probabilities")],
            severity="error" if is_silent else None,
            assuming=ctx.assumed_use(event.result, "the loss"),
            fix=("Cast the target to integers", _as_integers(event, is_silent)),
        )


def _as_integers(event: LossCall, is_silent: bool) -> Edits:
    return Edits() if is_silent else cast_argument(event.site, 1, "target", "long")


def _is_ranking(event: LossCall, ctx: Context) -> bool:
    """Whether samples are compared with each other on purpose, as names or a softmax over them say."""
    names = [ctx.program.name, *(frame.function for frame in event.frame.stack())]
    is_soft = event.target is not None and ctx.kind(event.target) == "probabilities"
    return is_soft or ctx.speaks_of("all-pairs", *names)
