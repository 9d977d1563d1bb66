"""A mean over losses that a mask has set to zero: what is padding still counts.

With `reduction="none"`, or in a loss that is written by hand (of a log-softmax, or of squared or absolute differences
under the `attention_mask` that a model gets), a mask or `ignore_index` makes the losses of padding zero, and `.mean()`
then divides by the number of all tokens. The loss and its gradient come out too small, by the share of what is no
padding, which differs from batch to batch: batches of short sequences count less, and the reported loss tells how much
was padded.

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
233 public repositories: no finding. With what is filled with zero, or written by hand: no finding in 763.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet

from dllint.api import (
    Backward,
    Choice,
    Context,
    Edits,
    Finding,
    Guards,
    LossCall,
    ModelForward,
    Rule,
    Site,
    Symbol,
    Value,
    alternatives,
    replace_range,
)

_MEANS = (".mean", "torch.mean")
_PRODUCTS = ("*", ".mul", ".mul_", "torch.mul")
_COMPARED = ("compare", ".ne", "torch.ne", ".gt", "torch.gt")
_THRESHOLDS = frozenset(
    (".ge", ".gt", ".le", ".lt", "torch.ge", "torch.gt", "torch.le", "torch.lt", "Gt", "GtE", "Lt", "LtE")
)
_FILLED = frozenset((".masked_fill", "torch.masked_fill"))
_CHOSEN = "torch.where"
_LOGARITHMS = frozenset(("torch.log_softmax", ".log_softmax", "torch.nn.LogSoftmax()"))
_FOR_EACH = frozenset(
    ("negative", "*", "+", "-", "/", ".neg", ".mul", ".gather", "torch.gather", "torch.neg", "torch.mul", "slice")
)  # what makes a loss for each element of logarithms
_SUMS = frozenset((".sum", "torch.sum", ".mean", "torch.mean"))  # of one axis
_REPEATS = frozenset((".repeat", ".expand", ".expand_as", "torch.tile", "index", "slice"))
_OF_TOKENS = "attention_mask"  # what models of sequences take, and tokenizers return: true of what is no padding
_ERRORS = frozenset(("**", ".pow", "torch.pow", ".square", "torch.square", ".abs", "torch.abs", "abs"))
_DIFFERENCES = frozenset(("-", ".sub", "torch.sub"))
_SIDES = 2
_MAX_STEPS = 40


class MeanOverPaddedMask(Rule):
    code = "DL109"
    name = "mean-over-padded-mask"
    category = "correctness"
    severity = "error"
    since = "0.1.0"
    triggers = (("mean",), ("reduction", "reduce", "log_softmax", "LogSoftmax", _OF_TOKENS))
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html",)

    def __init__(self) -> None:
        self._told: list[Site] = []

    def on_backward(self, event: Backward, ctx: Context) -> Iterator[Finding]:
        losses = {id(call.result): call for call in ctx.all_of(LossCall) if _is_for_each(call, ctx)}
        for guards, mean in _means(event.loss, ctx):
            found = _of_padded(mean, losses, ctx) or _of_padded_by_hand(mean, ctx)
            if found is not None and mean.site is not None and mean.site not in self._told:
                self._told.append(mean.site)
                yield self._report(event, mean.site, *found, guards, ctx)

    def _report(
        self, event: Backward, at: Site, losses: Value, mask: Value | None, guards: Guards, ctx: Context
    ) -> Finding:
        what = (
            "the mask has made some of these losses zero" if mask is not None else "ignored targets have a loss of zero"
        )
        made = [(losses.site, "one loss for each element")] if losses.site is not None else []
        return ctx.finding(
            self,
            at,
            f"{what}, and the mean is over all of them",
            on=[losses]
            if any(losses is call.result for call in ctx.all_of(LossCall))
            else [],  # what is written is known
            effect="loss and gradient are too small, by the share of what is no padding, which differs between batches",
            help="divide the sum by the number of what counts: `(losses * mask).sum() / mask.sum()`",
            trace=[*made, (at, "the mean counts the padding")],
            assuming=[each for each in ctx.assumptions_of(event, *guards) if each.kind != "opaque"],  # of the model
            fix=("Divide by the number of what counts", _sum_over_mask(at, ctx) if mask is not None else Edits()),
        )


def _is_for_each(call: LossCall, ctx: Context) -> bool:
    """Whether a loss is one number for each element, also as releases before 1.0 say it: `reduce=False`."""
    reduce = call.options.get("reduce")
    return bool(ctx.constant(call.options.get("reduction")) == "none") or (
        reduce is not None and ctx.constant(reduce) is False
    )


def _means(loss: Value | None, ctx: Context) -> Iterator[tuple[Guards, Symbol]]:
    """The means that a loss is, or is the sum of, perhaps with a factor that is a number, and when it is."""
    pending: list[tuple[Guards, Value]] = [((), loss)] if loss is not None else []
    for _ in range(_MAX_STEPS):
        guards, value = pending.pop(0) if pending else ((), None)
        if isinstance(value, Choice):
            pending.extend((guards + more, option) for more, option in value.options)
        if not isinstance(value, Symbol) or not value.inputs:
            continue
        if value.name in _MEANS and len(value.inputs) == 1:
            yield guards, value
        elif value.name in ("+", "*", "/", "forward", "scaled"):
            is_scaled = value.name in ("*", "/") and all(ctx.constant(each) is None for each in value.inputs)
            pending.extend((guards, each) for each in (() if is_scaled else ctx.inside(value)))


def _of_padded(mean: Symbol, losses: dict[int, LossCall], ctx: Context) -> tuple[Value, Value | None] | None:
    """The losses of a mean, and the mask that has set those of padding to zero; none where they ignore targets."""
    given = _unchanged(mean.inputs[0], ctx)
    call = losses.get(id(given))
    if call is not None:
        return (call.result, None) if _ignores_targets(call, ctx) else None
    for part, mask, is_kept in _masked(given, ctx):
        call = losses.get(id(_unchanged(part, ctx)))
        if call is not None and (_marks_padding(mask, is_kept, call, ctx) or _is_mask_too(mask, call, ctx)):
            return call.result, mask
    return None


def _of_padded_by_hand(mean: Symbol, ctx: Context) -> tuple[Value, Value | None] | None:
    """The same of a loss that is written by hand.

    It is made of logarithms of a softmax, and the mask says by names that it is about padding, or of squared or
    absolute differences, and the mask is what a model gets as its `attention_mask`.
    """
    for part, mask, is_kept in _masked(_unchanged(mean.inputs[0], ctx), ctx):
        is_token_loss = _is_compared_with_padding(mask, is_kept, ctx) and _is_loss_of(_is_logarithm, part, ctx)
        if is_token_loss or (is_kept and _is_of_tokens(mask, ctx) and _is_loss_of(_is_error, part, ctx)):
            return part, mask
    return None


def _masked(value: Value, ctx: Context) -> Iterator[tuple[Value, Value, bool]]:
    """What a mask sets to zero, the mask, and whether it is true of what is kept."""
    if not isinstance(value, Symbol):
        return
    if value.name in _PRODUCTS and len(value.inputs) == 2:
        yield *value.inputs, True
        yield *value.inputs[::-1], True
    elif value.name in _FILLED and value.inputs:
        mask, filling = ctx.argument(value, 0, "mask"), ctx.argument(value, 1, "value")
        if mask is not None and filling is not None and ctx.constant(filling) == 0:
            yield value.inputs[0], mask, False
    elif value.name == _CHOSEN and len(value.inputs) == 3:
        mask, first, second = value.inputs
        if _is_zero(second, ctx):
            yield first, mask, True
        elif _is_zero(first, ctx):
            yield second, mask, False


def _is_zero(value: Value, ctx: Context) -> bool:
    """Whether a value is the number zero, or a tensor of it."""
    value = _unchanged(value, ctx)
    is_made = isinstance(value, Symbol) and value.name in ("torch.zeros_like", "torch.zeros")
    return is_made or ctx.constant(value) == 0


def _is_loss_of(is_term: Callable[[Symbol, Context], bool], value: Value, ctx: Context) -> bool:
    """Whether a value is a loss for each element, of what it is known by."""
    pending = [value]
    for _ in range(_MAX_STEPS):
        each = _unchanged(pending.pop(0), ctx) if pending else None
        if not isinstance(each, Symbol) or not each.inputs:
            continue
        if is_term(each, ctx):
            return True
        has_axis = ctx.argument(each, 0, "dim") is not None or ctx.argument(each, 0, "axis") is not None
        if each.name in _FOR_EACH or (each.name in _SUMS and has_axis):
            pending.extend(each.inputs)
    return False


def _is_logarithm(value: Symbol, ctx: Context) -> bool:
    return value.name in _LOGARITHMS


def _is_error(value: Symbol, ctx: Context) -> bool:
    """Whether a value is the squares, or the sizes, of differences."""
    difference = _unchanged(value.inputs[0], ctx)
    return value.name in _ERRORS and isinstance(difference, Symbol) and difference.name in _DIFFERENCES


def _is_of_tokens(mask: Value, ctx: Context) -> bool:
    """Whether a mask is what a tokenizer calls so, or what a model is given by this name."""
    given = [call.arguments.keywords.get(_OF_TOKENS) for call in ctx.all_of(ModelForward)]
    known = {id(each) for value in given if value is not None for each in _wholes(value, ctx)}
    return _is_one_of(mask, known, ctx)


def _is_one_of(mask: Value, known: AbstractSet[int], ctx: Context, steps: int = _MAX_STEPS) -> bool:
    """Whether a mask is one of those that are known, or a part of it, whichever of several things it is."""
    mask = _unchanged(mask, ctx)
    if id(mask) in known or ctx.name_of(mask) == _OF_TOKENS:
        return True
    if isinstance(mask, Choice) and steps:
        return all(_is_one_of(option, known, ctx, steps - 1) for _, option in mask.options)
    is_part = isinstance(mask, Symbol) and mask.name in _REPEATS and bool(mask.inputs)
    return is_part and steps > 0 and _is_one_of(ctx.inside(mask)[0], known, ctx, steps - 1)


def _wholes(value: Value, ctx: Context) -> list[Value]:
    """A value before casts and reshapes, and what it is a part of, whichever of several it is."""
    pending = [_unchanged(value, ctx)]
    for each in pending:  # which grows meanwhile
        is_part = isinstance(each, Symbol) and each.name in _REPEATS
        inner = each.inputs[:1] if isinstance(each, Symbol) and is_part else []
        options = [option for _, option in alternatives(each)] if isinstance(each, Choice) else inner
        pending.extend(_unchanged(option, ctx) for option in options if len(pending) < _MAX_STEPS)
    return pending


def _is_compared_with_padding(mask: Value, is_kept: bool, ctx: Context) -> bool:
    """Whether a mask compares something with what is called padding, and sets what is equal to zero."""
    mask = _unchanged(mask, ctx)
    if not isinstance(mask, Symbol) or mask.site is None:
        return False
    if mask.name == "~":
        return _is_compared_with_padding(mask.inputs[0], not is_kept, ctx)
    kind = mask.detail if mask.name == "compare" else mask.name.rpartition(".")[2]
    if kind not in (("NotEq", "ne") if is_kept else ("Eq", "eq")):
        return False
    node = mask.site.node
    given = [*node.comparators, node.left] if isinstance(node, ast.Compare) else getattr(node, "args", [])
    names = [getattr(each, "attr", getattr(each, "id", "")) for each in given]
    return ctx.speaks_of("padding", *names)


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


def _marks_padding(mask: Value, is_kept: bool, call: LossCall, ctx: Context) -> bool:
    """Whether a mask tells padding from the rest: it compares the targets with a number, or positions with lengths, or
    is called so."""
    mask = _unchanged(mask, ctx)
    if isinstance(mask, Symbol) and mask.name == "~":
        return _marks_padding(mask.inputs[0], not is_kept, call, ctx)
    if isinstance(mask, Symbol) and _counts_up_to_lengths(mask, is_kept, ctx):
        return True
    if isinstance(mask, Symbol) and mask.name in (*_COMPARED, ".eq", "torch.eq") and call.target is not None:
        kind = mask.detail if mask.name == "compare" else mask.name.rpartition(".")[2]
        is_told = kind in (("NotEq", "Gt", "ne", "gt") if is_kept else ("Eq", "eq"))
        return is_told and _unchanged(mask.inputs[0], ctx) is _unchanged(call.target, ctx)
    name = ctx.name_of(mask)
    return "mask" in name.lower() and (ctx.speaks_of("padding", name) or "attention" in name.lower())


def _counts_up_to_lengths(mask: Symbol, is_kept: bool, ctx: Context) -> bool:
    """Whether a mask is true of the positions within a length: `torch.arange(longest) < lengths.unsqueeze(1)`."""
    sides = [_before_repeats(each, ctx) for each in mask.inputs[:2]] if mask.name == "compare" else []
    ranges = [isinstance(each, Symbol) and each.name == "torch.arange" for each in sides]
    if len(sides) != _SIDES or ranges.count(True) != 1:
        return False
    first = "Lt" if is_kept else "GtE"  # where the positions stand first
    wanted = first if ranges[0] else {"Lt": "Gt", "GtE": "LtE"}[first]
    node = mask.site.node if mask.site is not None else None
    written = [node.left, *node.comparators][ranges.index(False)] if isinstance(node, ast.Compare) else None
    names = [getattr(each, "attr", getattr(each, "id", "")) for each in ast.walk(written)] if written else []
    return mask.detail == wanted and ctx.speaks_of("sequence-length", *names)


def _before_repeats(value: Value, ctx: Context) -> Value:
    """A value before reshapes, and before it is repeated for each sample or position."""
    for _ in range(_MAX_STEPS):
        value = _unchanged(value, ctx)
        if not isinstance(value, Symbol) or value.name not in _REPEATS or not value.inputs:
            break
        value = value.inputs[0]
    return value


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
