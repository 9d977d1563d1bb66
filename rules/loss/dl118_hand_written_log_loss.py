"""The logarithm of a sigmoid, written by hand.

From a logit of 17 on the sigmoid rounds to 1 in float32, and `log(1 - p)` is minus infinity; so is `log(p)` where it
rounds to 0. One such prediction makes the loss infinite and all gradients `nan`, even if the term is multiplied by 0.
`binary_cross_entropy` keeps away from that, and `logsigmoid` and `binary_cross_entropy_with_logits` need not.

Measured on torch 2.13: `-(t * log(p) + (1 - t) * log(1 - p))` with a logit of 17 is infinite for a negative sample and
`nan` for a positive one, and so are its gradients; with a logit of 10 both are right.

## Bad
    p = torch.sigmoid(model(x))
    loss = -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()
    loss.backward()

## Good
    loss = F.binary_cross_entropy_with_logits(model(x), y)
    loss.backward()

## Not reported
Probabilities that are clamped or have a small number added; logarithms that nothing is trained with; probabilities that
may also be others; sigmoids of what is never large, as a cosine or a hyperbolic tangent (from 0.27 to 0.73).

## Fix (unsafe)
Writes `logsigmoid(x)` for `log(sigmoid(x))` in one expression. Unsafe because the numbers differ where they were
infinite.

## On real code
93 public repositories: no finding. Of 18 in unread ones 7 were true, 4 false (sigmoids of a cosine in one class, which
are silent since) and 7 doubtful, most of which need a logit below -88: what takes the logarithm of the sigmoid alone is
a note since, `log(1 - p)` is a warning.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Const,
    Context,
    Edits,
    Finding,
    LibraryCall,
    Rule,
    Site,
    Symbol,
    Value,
    judge,
    replace_range,
    spelling_of,
)

_SMALL = ("cosine_similarity", "CosineSimilarity", "tanh", "Tanh", "sigmoid", "Sigmoid", "softmax", "Softmax")


def is_not_trained_with(event: LibraryCall, ctx: Context) -> bool:
    """nothing is trained with it"""
    return event.grad != "on" or not ctx.goes_backward(event.result)


class HandWrittenLogLoss(Rule):
    code = "DL118"
    name = "hand-written-log-loss"
    category = "suspicious"
    severity = "warning"
    triggers = (("log",), ("sigmoid", "sigmoid_", "Sigmoid"))
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.logsigmoid.html",)
    excuses = (is_not_trained_with,)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if event.name != "torch.log" or not event.arguments.positional:
            return
        given = event.arguments.positional[0]
        verdict = judge(ctx.origins(given), lambda each: _saturating(each.value, ctx) is not None, event.guards)
        if verdict is None or ctx.excused(self, event):
            return
        bad, assumed = verdict
        probability = _saturating(bad[0].value, ctx)
        made = probability.site if probability is not None else None
        is_complement = isinstance(bad[0].value, Symbol) and bad[0].value.name == "-"
        logit = "17" if is_complement else "-89"
        yield ctx.finding(
            self,
            event,
            "the logarithm of a sigmoid is infinite where the sigmoid is saturated",
            effect=f"one prediction with a logit of {logit} makes the loss infinite and the weights nan",
            help="compute the loss by `binary_cross_entropy_with_logits`, or the term by `logsigmoid`",
            trace=[
                *([(made, "the sigmoid rounds to 0 or 1 here")] if made is not None else []),
                *reversed(bad[0].hops),
                (event.site, "and its logarithm is infinite"),
            ],
            fix=("Use `logsigmoid`", _as_logsigmoid(event, ctx)),
            on=[ctx.left_alone(event, model) for model in ctx.models_behind(given)],
            assuming=assumed,
            severity=None if is_complement else "info",
        )


def _saturating(value: Value, ctx: Context) -> Symbol | None:
    """The sigmoid that a value is, or is taken from 1."""
    if not isinstance(value, Symbol):
        return None
    if value.name == "-" and isinstance(value.inputs[0], Const) and value.inputs[0].value == 1:
        origins = [origin.value for origin in ctx.origins(value.inputs[1])]
        value = origins[0] if len(origins) == 1 and isinstance(origins[0], Symbol) else value
    is_sigmoid = "igmoid" in value.name and ctx.kind(value) == "probabilities"
    return value if is_sigmoid and not _is_of_small(value, ctx) else None


def _is_of_small(sigmoid: Symbol, ctx: Context) -> bool:
    """Whether a sigmoid is taken of numbers from -1 to 1."""
    given = [origin.value for each in sigmoid.inputs for origin in ctx.origins(each)]
    return any(isinstance(each, Symbol) and each.name.rpartition(".")[2] in _SMALL for each in given)


def _as_logsigmoid(event: LibraryCall, ctx: Context) -> Edits:
    """``torch.log(torch.sigmoid(x))`` becomes ``F.logsigmoid(x)``."""
    outer, functional = event.site.node, spelling_of("torch.nn.functional", event.site)
    inner = outer.args[0] if isinstance(outer, ast.Call) and len(outer.args) == 1 else None
    if not functional or not isinstance(inner, ast.Call) or len(inner.args) != 1 or inner.keywords:
        return Edits()
    if ast.unparse(inner.func).rpartition(".")[2] != "sigmoid":
        return Edits()
    given = ctx.source_of(Site(event.site.module, inner.args[0]))
    return replace_range(event.site, f"{functional}.logsigmoid({given})")
