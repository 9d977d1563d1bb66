"""A softmax over an axis that has one step, that is the batch, or that the product after it does not sum.

The weights of attention are to sum to one over what they are applied to. `(queries, keys)` normalized over the queries
gives each key a budget of its own: a key that all queries want is spread thin, and one that nobody wants is read all
the same. Over an axis of one step every weight is 1, whatever the scores: nothing is learned there. Over the batch, the
scores of one sample depend on the others in its batch, and a single sample always gets 1. No error says so.

Measured on torch 2.13 (attention that looks up the values of 16 keys, three seeds, 1,500 steps): normalized over the
queries, a test accuracy of .22 to .24 instead of 1.00 where one query is made at a time, and .992 to .996 where there
are 16, since the scores learn to make up for it.

## Bad
    scores = q @ k.transpose(-2, -1)
    weights = scores.softmax(dim=-2)
    out = weights @ v

## Good
    scores = q @ k.transpose(-2, -1)
    weights = scores.softmax(dim=-1)
    out = weights @ v

## Not reported
Axes of which it is not known which ones they are. Weights that are normalized again before they are used, products of
two softmaxes (as in co-attention), products that mix the weights of several heads or queries and do not apply them yet
(talking heads, re-attention), softmaxes of what is no product of queries and keys (as in linear attention), and
capsules and slots, which compete for their inputs on purpose. Softmaxes over axis 0 of what was squeezed of all axes
with one step, as the scores of the single state that an agent sees. As a question only: weights that are not applied
as they lie (`weights @ values`) but turned round, or from the other side, as what assigns pixels to nodes is; the
scores of queries and a single key, unless what applies the weights sums another axis.

## Fix (unsafe)
Normalizes over the axis that the product sums. Unsafe because it changes what the network computes, as it should.

## On real code
119 public repositories that call a softmax: no finding. In 1,300 others, as they were read, 3 of 11 were true, 6 false
(assignments, and axes that were counted wrongly) and 2 doubtful. With weights that are applied as they lie, the true
ones are left, and none of the others.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Assumption,
    Context,
    Contraction,
    Edits,
    Finding,
    Instance,
    LibraryCall,
    ModelForward,
    Rule,
    Site,
    Size,
    Symbol,
    Value,
    set_argument,
    together,
)

_PRODUCTS = ("@", "torch.matmul", "torch.bmm", "torch.mm", "torch.einsum")
_SOFTMAX = ("torch.softmax", "torch.log_softmax", "torch.nn.Softmax()", "torch.nn.LogSoftmax()")


# ------------------------------------------------------------------------------------------------- excuses


def is_of_two_softmaxes(event: LibraryCall | ModelForward, found: Contraction | Value, ctx: Context) -> bool:
    """the weights are multiplied with other weights: the product is summed once more"""
    others = found.others if isinstance(found, Contraction) else ()
    behind = (source for other in others for source in ctx.sources(other))
    return any(isinstance(source, Symbol) and source.name in _SOFTMAX for source in behind)


def is_mix_of_weights(event: LibraryCall | ModelForward, found: Contraction | Value, ctx: Context) -> bool:
    """the product mixes weights with each other, those of several heads or queries, and does not apply them yet"""
    return isinstance(event.result, Symbol) and isinstance(found, Contraction) and ctx.is_mix(event.result, found)


def is_competition(event: LibraryCall | ModelForward, found: Contraction | Value, ctx: Context) -> bool:
    """capsules, slots and clusters compete for their inputs on purpose"""
    names = (event.frame.owner, event.frame.function, event.site.module.name)
    return isinstance(found, Contraction) and any(ctx.speaks_of("competition", name) for name in names)


def may_be_of_one_sample(event: LibraryCall | ModelForward, found: Contraction | Value, ctx: Context) -> bool:
    """a `squeeze()` of all axes took that of the samples away, if there is one, and no pass over a loader has more"""
    is_squeezed = not isinstance(found, Contraction) and any(True for _ in ctx.squeezed(found))
    return is_squeezed and not any(map(ctx.goes_over_loader, ctx.loops_around(event)))


class SoftmaxOverWrongAxis(Rule):
    code = "DL823"
    name = "softmax-over-wrong-axis"
    category = "correctness"
    severity = "warning"
    default = False
    preview = True
    since = "0.1.0"
    triggers = (("softmax", "Softmax", "log_softmax", "LogSoftmax"),)
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://arxiv.org/abs/1706.03762",)
    excuses = (is_of_two_softmaxes, is_competition, is_mix_of_weights, may_be_of_one_sample)

    def on_library_call(self, event: LibraryCall, ctx: Context) -> Iterator[Finding]:
        if event.name in _PRODUCTS and isinstance(event.result, Symbol):
            for found in ctx.contractions(event.result):
                is_wrong = found.weights.axis != found.summed
                is_attention = all(map(ctx.is_of_products, found.weights.softmaxes))
                if is_wrong and is_attention and not ctx.excused(self, event, found):
                    yield self._of_weights(event, found, ctx)
        elif event.name in _SOFTMAX and event.arguments.positional:
            yield from self._of_scores(event, event.arguments.positional[0], event.result, ctx)

    def on_model_forward(self, event: ModelForward, ctx: Context) -> Iterator[Finding]:
        if isinstance(event.result, Symbol) and event.result.name in _SOFTMAX and event.arguments.positional:
            yield from self._of_scores(event, event.arguments.positional[0], event.result, ctx)

    def _of_weights(self, event: LibraryCall, found: Contraction, ctx: Context) -> Finding:
        softmax = found.weights.softmaxes[0]
        at = softmax.site or event.site
        told = ctx.axis_of_softmax(softmax)
        return ctx.finding(
            self,
            event,
            f"the weights sum to one over axis {found.weights.axis}, and this product sums axis {found.summed}",
            effect="what a query reads is no mean of the values: its weights sum to anything",
            help=f"normalize over the axis that is summed, not over `dim={told}`",
            assuming=(*ctx.made_up_of(*event.arguments.all()), *_assumed_of_attention(found)),
            trace=[(at, f"normalized over `dim={told}`"), (event.site, "the weights are applied")],
            fix=("Normalize over the axis that is summed", _over_axis(found, event)),
        )

    def _of_scores(
        self, event: LibraryCall | ModelForward, scores: Value, softmax: Value, ctx: Context
    ) -> Iterator[Finding]:
        axis = ctx.axis_of_softmax(softmax) if isinstance(softmax, Symbol) else None
        shape = ctx.shape(scores)
        if axis is None:
            return
        if shape.axis(axis) == Size():
            yield ctx.finding(
                self,
                event,
                f"axis {axis} of these scores has one step: a softmax over it is always 1",
                effect="all weights are equal, and no gradient reaches what the scores come from",
                help="normalize over the axis of what is weighted, or use a sigmoid for a single score",
                assuming=(
                    *ctx.assumed_use(softmax, "the result"),
                    *ctx.made_up_of(scores),
                    *_assumed_of_key(softmax, ctx),
                ),
                trace=_layer(event),
            )
        elif axis == 0 and shape.is_batch and shape.rank != 1 and _is_score_of_classes(shape.axis(-1)):
            if ctx.excused(self, event, scores):
                return
            yield ctx.finding(
                self,
                event,
                "this softmax is over the samples of the batch",
                effect="the scores of a sample depend on the others in its batch, and those of one alone are 1",
                help="normalize over the classes: `dim=-1`",
                assuming=(*ctx.assumed_use(softmax, "the result"), *ctx.made_up_of(scores)),
                trace=_layer(event),
            )


def _assumed_of_attention(found: Contraction) -> Iterator[Assumption]:
    """That queries weigh keys, where the weights are not applied as they lie: ``weights @ values``.

    What is turned round before, or stands behind what it is applied to, may be an assignment: of pixels to nodes.
    """
    if found.summed != -1 or found.weights.axis != found.weights.made_over:
        yield Assumption(
            "effect", "what is normalized does not compete for what it is made of, as nodes and clusters do"
        )


def _assumed_of_key(softmax: Value, ctx: Context) -> Iterator[Assumption]:
    """That more than one key is wanted, where the scores are products of queries and a single key.

    Those are no keys whose axis is another one than the product sums that applies the weights.
    """
    if isinstance(softmax, Symbol) and ctx.is_of_products(softmax) and not ctx.are_weights_of_another_axis(softmax):
        yield Assumption(
            "effect", "there is to be more than one key, as with a single one its value is all that counts"
        )


def _layer(event: LibraryCall | ModelForward) -> list[tuple[Site, str]]:
    """Where the layer is made that is called: all that it does is one finding."""
    made = event.model.site if isinstance(event, ModelForward) and isinstance(event.model, Instance) else None
    return [(made, "the softmax is made here"), (event.site, "and applied here")] if made is not None else []


def _is_score_of_classes(size: Size | None) -> bool:
    """Whether the last axis holds what a linear layer makes of each sample: several scores."""
    return size is not None and size.meaning == "feature" and size != Size()


def _over_axis(found: Contraction, event: LibraryCall) -> Edits:
    """Another axis where each softmax is told one, in the same file, and the weights lie as it left them."""
    changes: dict[ast.AST, Edits] = {}
    for softmax in found.weights.softmaxes:
        at = _told_at(softmax)
        if at is None or at.module is not event.site.module or found.weights.axis != found.weights.made_over:
            return Edits()
        is_layer = softmax.name.endswith("()")
        is_method = isinstance(at.node, ast.Call) and isinstance(at.node.func, ast.Attribute) and not at.node.args[1:]
        changes[at.node] = set_argument(at, "dim", str(found.summed), position=0 if is_layer or is_method else 1)
    return together(*changes.values())


def _told_at(softmax: Symbol) -> Site | None:
    """Where a softmax is told its axis: at its call, or where its layer is made."""
    layer = softmax.inputs[0]
    return layer.site if softmax.name.endswith("()") else softmax.site
