"""One-hot targets of integers given to a cross-entropy.

`cross_entropy` takes class indices, or a probability for each class as a float. `one_hot` returns integers, which
are read as class indices: the shapes do not fit, and torch raises.

Measured on torch 2.13: "Expected floating point type for target with class probabilities, got Long". As floats the
same targets give the loss of class indices to the last bit, in 4.5 ms instead of 3.3 ms (4,096 samples, 1,000 classes).

## Bad
    loss = F.cross_entropy(model(x), F.one_hot(y, 10))
    loss.backward()

## Good
    loss = F.cross_entropy(model(x), y)
    loss.backward()

## Not reported
One-hot targets that are cast to floats or smoothed, and those of other losses.

## Fix (unsafe)
Casts the targets with `float()`. Class indices are faster; where they are, the fix does not know.

## On real code
276 public repositories: no finding.
"""

from __future__ import annotations

from collections.abc import Iterator

from dllint.api import Context, Finding, LossCall, Origin, Rule, Symbol, cast_argument, judge

_ONE_HOT = "torch.nn.functional.one_hot"


class OneHotTarget(Rule):
    code = "DL105"
    name = "one-hot-target"
    category = "correctness"
    severity = "info"
    triggers = (("cross_entropy", "CrossEntropyLoss"), ("one_hot",))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html",)

    def on_loss_call(self, event: LossCall, ctx: Context) -> Iterator[Finding]:
        if event.loss != "torch.nn.functional.cross_entropy" or ctx.number_kind(event.target) != "integer":
            return
        verdict = judge(ctx.origins(event.target), _is_one_hot, event.guards) if event.target is not None else None
        if verdict is None:
            return
        bad, assumed = verdict
        site = bad[0].value.site
        yield ctx.finding(
            self,
            event,
            "one-hot targets of integers are given to a cross-entropy, which takes class indices or floats",
            effect="torch refuses them with an error, in the first batch",
            help="pass the class indices, or cast the one-hot targets with `float()`",
            trace=[
                *([(site, "the targets are made here")] if site is not None else []),
                *reversed(bad[0].hops),
                (event.site, "and the loss reads integers as class indices"),
            ],
            assuming=assumed,
            fix=("Cast the targets to floats", cast_argument(event.site, 1, "target", "float")),
        )


def _is_one_hot(origin: Origin) -> bool:
    return isinstance(origin.value, Symbol) and origin.value.name == _ONE_HOT
