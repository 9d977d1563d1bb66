"""What is wrong, as a noun phrase.

What it does to training, and how that comes about.

Measured on torch ...: what you have found, in numbers.

## Bad
    loss = F.cross_entropy(model(x), target, reduction="sum")

## Good
    loss = F.cross_entropy(model(x), target)

## Not reported
What looks like it and is right.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, LossCall, Rule


class IntegerOverflowOnScaling(Rule):
    code = "DL419"
    name = "integer-overflow-on-scaling"
    category = "correctness"
    since = "0.1.0"
    triggers = (("cross_entropy", "CrossEntropyLoss"),)

    def on_loss_call(self, event: LossCall, ctx: Context) -> Iterator[Finding]:
        if event.loss == "torch.nn.functional.cross_entropy" and ctx.constant(event.options.get("reduction")) == "sum":
            yield ctx.finding(
                self,
                event,
                "what is there, and what follows from it",
                effect="what it does to training",
                help="what to do about it",
            )
