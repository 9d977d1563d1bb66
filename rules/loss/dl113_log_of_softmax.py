"""Logarithm of a softmax, computed in two steps.

The softmax of a class whose logit is far below the largest underflows to zero; its logarithm is minus infinity and the
gradient `nan`. `log_softmax` computes the same number without the detour. The `probs` of a `Categorical` that is given
logits are a softmax as well; its `logits` are their logarithms.

Measured on torch 2.13: with a gap of 110 between two logits `log(softmax(x))` is minus infinity and its gradient `nan`
in float32; from a gap of 18 in float16, of 100 in bfloat16. Below that the two are equal.

## Bad
    log_p = torch.log(F.softmax(logits, dim=1))
    loss = -(target * log_p).sum(1).mean()
    loss.backward()

## Good
    log_p = F.log_softmax(logits, dim=1)
    loss = -(target * log_p).sum(1).mean()
    loss.backward()

## Not reported
`torch.log(p + eps)` and `torch.log(p.clamp(min=eps))`, which keep away from zero; logarithms of probabilities that are
mixed or multiplied first, be it in one of several calls; tensors without gradients; the largest probability (`max`,
`topk`, an index of `argmax`), which of n classes is 1/n or more, picked before the logarithm or after it; the
probability of what was drawn with it (`multinomial`, `sample`), which is not zero.

## Fix (safe)
Writes `log_softmax` where the softmax stands in the call of `log`: the numbers are the same wherever both are finite.

## On real code
742 public repositories: 55 findings in 21 of them, all true; many are in lessons, six of which show the two steps on
purpose. Of 40 in unread ones 23 were doubtful: right, but logits that are 103 apart are not to be expected there. So it
is a note.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Context,
    Edits,
    Finding,
    Instance,
    LibraryCall,
    Program,
    Rule,
    Site,
    Symbol,
    Value,
    replace_range,
)

_LARGEST = ("max", "amax", "argmax", "topk")
_PICKING = frozenset(f"{owner}.{name}" for owner in ("torch", "") for name in _LARGEST)
_BY_INDEX = ("item", ".gather", "torch.gather", ".index_select", "torch.index_select")
_DRAWS = ("torch.multinomial", ".multinomial", ".sample")
_DISTRIBUTIONS = ("Categorical", "OneHotCategorical")
_SOFTMAX = ("torch.softmax", "torch.nn.Softmax()", "torch.nn.Softmax2d()")


def without_gradients(event: LibraryCall, origins: list[Value], ctx: Context) -> bool:
    """the tensor carries no gradients"""
    return event.grad == "off" or ctx.gradient(event.arguments.all()[0]).flows is False


def of_other_probabilities(event: LibraryCall, origins: list[Value], ctx: Context) -> bool:
    """the probabilities may also be others, or are mixed or multiplied first"""
    return not all(map(_is_softmax, origins))


def of_the_largest(event: LibraryCall, origins: list[Value], ctx: Context) -> bool:
    """the largest probabilities are picked, before or after it, which do not underflow"""
    if ctx.goes_only_into(event.site, frozenset(_LARGEST)):
        return True
    between = (each for given in event.arguments.all()[:1] for each in ctx.sources_up_to(given, _is_softmax))
    return any(isinstance(each, Symbol) and each.name in _PICKING for each in between)


def of_what_was_drawn(event: LibraryCall, origins: list[Value], ctx: Context) -> bool:
    """the probabilities are those of what was drawn with them, which is never anything of probability zero"""
    between = (each for given in event.arguments.all()[:1] for each in ctx.sources_up_to(given, _is_softmax))
    picked = (each for each in between if isinstance(each, Symbol) and each.name in _BY_INDEX)
    indices = (index for each in picked for index in each.inputs[1:])
    return any(
        isinstance(source, Symbol) and source.name in _DRAWS
        for index in indices
        for source in ctx.sources_up_to(index, _is_softmax)
    )


class LogOfSoftmax(Rule):
    code = "DL113"
    name = "log-of-softmax"
    category = "suspicious"
    severity = "info"
    triggers = (("log", "log_"), ("softmax", "Softmax", "Softmax2d", *_DISTRIBUTIONS))
    fix_safety = "safe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.log_softmax.html",)

    excuses = (without_gradients, of_other_probabilities, of_the_largest, of_what_was_drawn)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        found: dict[ast.AST, Finding | None] = {}
        for event in ctx.library_calls("torch.log"):
            origins = (
                [origin.value for origin in ctx.origins(event.arguments.all()[0])] if event.arguments.all() else []
            )
            if not any(map(_is_softmax, origins)) or ctx.excused(self, event, origins):
                found[event.site.node] = None  # called with something else, this place cannot do without a logarithm
            elif event.site.node not in found:
                found[event.site.node] = self._report(event, origins[0], ctx)
        yield from (finding for finding in found.values() if finding is not None)

    def _report(self, event: LibraryCall, softmax: Value, ctx: Context) -> Finding:
        trace = [(softmax.site, "small probabilities round to zero here")] if softmax.site is not None else []
        return ctx.finding(
            self,
            event,
            "the logarithm of a softmax, computed in two steps, underflows",
            assuming=ctx.assumed_use(event.result, "the logarithm"),
            effect="logits that lie far apart give an infinite loss and gradients of nan, in float16 from a gap of 18",
            help="use `log_softmax`, which computes the same in one step",
            trace=[*trace, (event.site, "and their logarithm is minus infinity")],
            fix=("Use `log_softmax`", _in_one_step(event, softmax, ctx)),
        )


def _is_softmax(value: Value) -> bool:
    return isinstance(value, Symbol) and (value.name in _SOFTMAX or _is_of_distribution(value))


def _is_of_distribution(value: Symbol) -> bool:
    """Whether a value is the probabilities of a distribution that is given logits: `Categorical(logits=x).probs`."""
    owner = value.inputs[0] if value.name == "attribute" and value.detail == "probs" and value.inputs else None
    if not isinstance(owner, Instance) or not owner.library_name.startswith("torch.distributions."):
        return False
    has_logits = owner.arguments.get(1, "logits") is not None and owner.arguments.get(0, "probs") is None
    return has_logits and owner.library_name.rpartition(".")[2] in _DISTRIBUTIONS


def _in_one_step(event: LibraryCall, softmax: Value, ctx: Context) -> Edits:
    """``log(softmax(x, dim))`` and ``softmax(x, dim).log()`` in one expression.

    What has a ``softmax`` as an attribute of its own need not have a ``log_softmax``.
    """
    outer = event.site.node
    if not isinstance(outer, ast.Call) or not isinstance(outer.func, ast.Attribute):
        return Edits()
    inner = outer.args[0] if outer.args else outer.func.value
    if not isinstance(inner, ast.Call) or not isinstance(inner.func, ast.Attribute) or inner.func.attr != "softmax":
        return Edits()
    is_function = isinstance(softmax, Symbol) and softmax.name == "torch.softmax"
    if not is_function or getattr(inner.func.value, "id", "") in ("self", "cls"):
        return Edits()
    place = Site(event.site.module, inner)
    function = ctx.source_of(Site(event.site.module, inner.func))
    renamed = function.removesuffix("softmax") + "log_softmax" + ctx.source_of(place).removeprefix(function)
    return replace_range(event.site, renamed)
