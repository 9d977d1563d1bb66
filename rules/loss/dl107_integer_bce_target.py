"""Integer or boolean targets given to a binary cross-entropy.

Both binary losses compute with their target, so it has to be of the type of the output. torch refuses others, in the
first batch.

Measured on torch 2.13: `binary_cross_entropy` raises "Found dtype Long but expected Float", and
`binary_cross_entropy_with_logits` "result type Float can't be cast to the desired output type Long"; booleans are
refused for their subtraction.

## Bad
    loss = F.binary_cross_entropy_with_logits(model(x).squeeze(1), y.long())
    loss.backward()

## Good
    loss = F.binary_cross_entropy_with_logits(model(x).squeeze(1), y.float())
    loss.backward()

## Not reported
Targets as the loader gives them, whatever they are; mean squared and absolute errors, which take integers.

## Fix (safe)
Casts the target with `float()`: without it there is an error, and no numbers.

## On real code
276 public repositories: no finding, and three questions. Two are right: masks are cast to integers for a binary loss
that code elsewhere may choose. One is not: with more classes, which is when the cast counts, another loss is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, LossCall, Rule, cast_argument

_LOSSES = frozenset(
    ("torch.nn.functional.binary_cross_entropy", "torch.nn.functional.binary_cross_entropy_with_logits")
)


class IntegerBceTarget(Rule):
    code = "DL107"
    name = "integer-bce-target"
    category = "correctness"
    severity = "info"
    triggers = (
        ("binary_cross_entropy", "binary_cross_entropy_with_logits", "BCELoss", "BCEWithLogitsLoss"),
        ("long", "int", "bool", "int64", "one_hot", "LongTensor", "argmax", "randint", "tensor"),
    )
    confirmable = True
    fix_safety = "safe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.BCEWithLogitsLoss.html",)

    def on_loss_call(self, event: LossCall, ctx: Context) -> Iterator[Finding]:
        target = event.target if event.loss in _LOSSES else None
        kind = ctx.number_kind(target)
        if target is None or kind not in ("integer", "boolean") or ctx.number_kind(event.input) == kind:
            return
        made = [(target.site, f"the target is {kind}")] if target.site is not None else []
        yield ctx.finding(
            self,
            event,
            f"the target of a binary cross-entropy is {kind}, and torch takes only floats",
            effect="torch refuses the target with an error, in the first batch",
            help="cast the target with `float()`",
            trace=[*made, (event.site, "and the loss wants floats")],
            fix=("Cast the target to floats", cast_argument(event.site, 1, "target", "float")),
        )
