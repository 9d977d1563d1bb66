"""A mean over losses that a mask has set to zero: what is padding still counts.

With `reduction="none"`, a mask or `ignore_index` makes the losses of padding zero, and `.mean()` then divides by the
number of all tokens. The loss and its gradient come out too small, by the share of what is no padding, which differs
from batch to batch: batches of short sequences count less, and the reported loss tells how much was padded.

Measured on torch 2.13 (8 sequences of up to 16 tokens, 43 % of them no padding): `(losses * mask).mean()` and
`cross_entropy(..., reduction="none", ignore_index=0).mean()` give 1.86, the mean over the tokens is 4.32.

## Bad
    losses = F.cross_entropy(logits, y, reduction="none")
    mask = (y != pad).float()
    loss = (losses * mask).mean()
    loss.backward()

## Good
    losses = F.cross_entropy(logits, y, reduction="none")
    mask = (y != pad).float()
    loss = (losses * mask).sum() / mask.sum()
    loss.backward()

## Not reported
Masks of which it is not known that they mark padding (a threshold on the confidence of pseudo-labels, a region of an
image), unless the loss ignores targets besides; weights, losses that a mask has chosen (`losses[mask].mean()`), and
means that are divided or multiplied by something later.

## Fix (unsafe)
Divides by the number of what counts. Unsafe because the gradient gets larger, as it should.

## On real code
233 public repositories: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import Backward, Context, Edits, Finding, LossCall, Rule, Site, Symbol, Value, replace_range

_MEANS = (".mean", "torch.mean")
_PRODUCTS = ("*", ".mul", ".mul_", "torch.mul")
_COMPARED = ("compare", ".ne", "torch.ne", ".gt", "torch.gt")
_THRESHOLDS = frozenset(
    (".ge", ".gt", ".le", ".lt", "torch.ge", "torch.gt", "torch.le", "torch.lt", "Gt", "GtE", "Lt", "LtE")
)
_MAX_STEPS = 40


class MeanOverPaddedMask(Rule):
    code = "DL109"
    name = "mean-over-padded-mask"
    category = "correctness"
    severity = "error"
    since = "0.1.0"
    triggers = (("mean",), ("reduction",))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html",)

    def __init__(self) -> None:
        self._told: list[Site] = []

    def on_backward(self, event: Backward, ctx: Context) -> Iterator[Finding]:
        losses = {id(call.result): call for call in ctx.all_of(LossCall) if _is_for_each(call, ctx)}
        for mean in _means(event.loss, ctx) if losses else ():
            found = _of_padded(mean, losses, ctx)
            if found is not None and mean.site is not None and mean.site not in self._told:
                self._told.append(mean.site)
                yield self._report(event, mean.site, *found, ctx)

    def _report(self, event: Backward, at: Site, call: LossCall, mask: Value | None, ctx: Context) -> Finding:
        what = (
            "the mask has made some of these losses zero" if mask is not None else "ignored targets have a loss of zero"
        )
        return ctx.finding(
            self,
            at,
            f"{what}, and the mean is over all of them",
            on=[call.result],
            effect="loss and gradient are too small, by the share of what is no padding, which differs between batches",
            help="divide the sum by the number of what counts: `(losses * mask).sum() / mask.sum()`",
            trace=[(call.site, "one loss for each element"), (at, "the mean counts the padding")],
            assuming=ctx.assumptions_of(event),
            fix=("Divide by the number of what counts", _sum_over_mask(at, ctx) if mask is not None else Edits()),
        )


def _is_for_each(call: LossCall, ctx: Context) -> bool:
    return bool(ctx.constant(call.options.get("reduction")) == "none")


def _means(loss: Value | None, ctx: Context) -> Iterator[Symbol]:
    """The means that a loss is, or is the sum of, perhaps with a factor that is a number."""
    pending = [loss] if loss is not None else []
    for _ in range(_MAX_STEPS):
        value = pending.pop(0) if pending else None
        if not isinstance(value, Symbol) or not value.inputs:
            continue
        if value.name in _MEANS and len(value.inputs) == 1:
            yield value
        elif value.name in ("+", "*", "/", "forward", "scaled"):
            is_scaled = value.name in ("*", "/") and all(ctx.constant(each) is None for each in value.inputs)
            pending.extend(() if is_scaled else ctx.inside(value))


def _of_padded(mean: Symbol, losses: dict[int, LossCall], ctx: Context) -> tuple[LossCall, Value | None] | None:
    """The losses of a mean, and the mask that has set those of padding to zero; none where they ignore targets."""
    given = _unchanged(mean.inputs[0], ctx)
    call = losses.get(id(given))
    if call is not None:
        return (call, None) if _ignores_targets(call, ctx) else None
    if not isinstance(given, Symbol) or given.name not in _PRODUCTS or len(given.inputs) != 2:
        return None
    for part, other in (given.inputs, given.inputs[::-1]):
        call = losses.get(id(_unchanged(part, ctx)))
        if call is not None and (_marks_padding(other, call, ctx) or _is_mask_too(other, call, ctx)):
            return call, other
    return None


def _ignores_targets(call: LossCall, ctx: Context) -> bool:
    ignored = call.options.get("ignore_index")
    return ignored is not None and not ctx.is_none(ignored)


def _is_mask_too(value: Value, call: LossCall, ctx: Context) -> bool:
    """Whether what is called a mask, and is no threshold, comes on top of targets that a loss is told to ignore."""
    mask = _unchanged(value, ctx)
    is_threshold = isinstance(mask, Symbol) and (mask.name in _THRESHOLDS or mask.detail in _THRESHOLDS)
    return _ignores_targets(call, ctx) and not is_threshold and "mask" in ctx.name_of(mask).lower()


def _unchanged(value: Value, ctx: Context) -> Value:
    """A value before casts and reshapes, which change no number."""
    facts = ctx.facts
    for _ in range(_MAX_STEPS):
        if not isinstance(value, Symbol) or not value.inputs:
            break
        name = value.name
        if not (name[1:] in facts.shape_only_methods if name[0] == "." else name in facts.shape_only):
            break
        value = value.inputs[0]
    return value


def _marks_padding(mask: Value, call: LossCall, ctx: Context) -> bool:
    """Whether a mask tells padding from the rest: it compares the targets with a number, or is called so."""
    mask = _unchanged(mask, ctx)
    if isinstance(mask, Symbol) and mask.name in _COMPARED and call.target is not None:
        is_unequal = mask.name != "compare" or mask.detail in ("NotEq", "Gt")
        return is_unequal and _unchanged(mask.inputs[0], ctx) is _unchanged(call.target, ctx)
    name = ctx.name_of(mask)
    return "mask" in name.lower() and (ctx.speaks_of("padding", name) or "attention" in name.lower())


def _sum_over_mask(at: Site, ctx: Context) -> Edits:
    """``(a * mask).mean()`` as ``(a * mask).sum() / mask.sum()``, where it is written like that and stands alone."""
    call = at.node
    product = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    is_alone = isinstance(next(iter(ctx.ancestors(at, ast.stmt, ast.expr)), None), ast.Assign | ast.Return)
    if not isinstance(product, ast.BinOp) or not isinstance(product.op, ast.Mult) or not is_alone:
        return Edits()
    masks = [side for side in (product.left, product.right) if isinstance(side, ast.Name) and "mask" in side.id.lower()]
    if len(masks) != 1:
        return Edits()
    written = ctx.source_of(Site(at.module, product))
    return replace_range(at, f"({written}).sum() / {masks[0].id}.sum()")
