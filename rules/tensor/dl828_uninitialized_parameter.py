"""A parameter that nothing fills: `nn.Parameter(torch.empty(n))`.

`torch.empty` and `torch.Tensor(sizes)` reserve memory and leave in it what was there. Often that is zeros from the
operating system, which is why it seems to work; after some training it is old activations, and sometimes NaN.

Measured on torch 2.13: of three `torch.empty(1000, 10)` made after tensors of that size were freed, the largest numbers
were 4.4e6, 4.7e3 and 4.4e6; a `torch.empty(64, 64)` in the same process held 4.1e6.

## Bad
    class Gate(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(size, size))

        def forward(self, x):
            return x @ self.weight

## Good
    class Gate(nn.Module):
        def __init__(self, size):
            super().__init__()
            self.weight = nn.Parameter(torch.empty(size, size))
            nn.init.xavier_uniform_(self.weight)

        def forward(self, x):
            return x @ self.weight

## Not reported
Parameters that are handed to a function, changed in place, or filled by a method of the class or by code that names the
class (`reset_parameters`, `apply(init)`, `load_state_dict`); classes that others extend or that build on others;
`torch.Tensor(values)` of values.

## Fix (unsafe)
Draws small random numbers instead: `torch.randn(...) * 0.02`. Unsafe because it changes the numbers, as it should.

## On real code
138 public repositories: no finding.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dllint.api import AttributeAssigned, Class, Context, Edits, Finding, Instance, Rule, Site, Symbol, replace_range

_EMPTY = frozenset(("torch.empty", "torch.Tensor", "torch.FloatTensor", "torch.cuda.FloatTensor"))
_FILLS = (
    r"\.apply\(|\binit\.|\binit_[a-z]|[a-z]_init\b|_init_[a-z]|initiali[sz]e|\breset|load_state"
    r"|\.(?:normal|uniform|fill|zero|copy|trunc)\w*_\("
)


def _fills(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and re.search(_FILLS, f"{ast.unparse(node.func)}(") is not None


# ------------------------------------------------------------------------------------------------- excuses


def is_touched(event: AttributeAssigned, owner: Instance, made: Symbol, ctx: Context) -> bool:
    """a method of the class hands it on, changes it in place or reads `.data` of it outside of `forward`"""
    assert isinstance(owner.cls, Class)
    uses = ctx.attribute_uses(owner.cls, event.attribute)
    return not uses or any(use.method != "forward" for use in uses)


def is_filled_elsewhere(event: AttributeAssigned, owner: Instance, made: Symbol, ctx: Context) -> bool:
    """the class, or code that names it, speaks of filling parameters"""
    assert isinstance(owner.cls, Class)
    return ctx.is_said_in(owner.cls, _FILLS) or any(map(_fills, ctx.code_around(owner.cls)))


def builds_on_others(event: AttributeAssigned, owner: Instance, made: Symbol, ctx: Context) -> bool:
    """the class has other ancestors than `nn.Module`, which may fill it"""
    assert isinstance(owner.cls, Class)
    return len(owner.cls.lineage) > 1 or owner.cls.library_bases != ("torch.nn.Module",)


class UninitializedParameter(Rule):
    code = "DL828"
    name = "uninitialized-parameter"
    category = "correctness"
    severity = "error"
    triggers = (("Parameter",), ("empty", "Tensor", "FloatTensor"))
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.empty.html",)
    excuses = (builds_on_others, is_touched, is_filled_elsewhere)

    def on_attribute_assigned(self, event: AttributeAssigned, ctx: Context) -> Iterator[Finding]:
        owner, value = event.target, event.value
        if not isinstance(owner, Instance) or not isinstance(owner.cls, Class) or not isinstance(value, Instance):
            return
        made = value.arguments.get(0, "data") if value.library_name == "torch.nn.Parameter" else None
        if isinstance(made, Symbol) and _is_empty(made, ctx) and not ctx.excused(self, event, owner, made):
            yield self._report(event, made, ctx)

    def _report(self, event: AttributeAssigned, made: Symbol, ctx: Context) -> Finding:
        assert made.site is not None
        return ctx.finding(
            self,
            made.site,
            f"`{event.attribute}` is a parameter that nothing fills: its numbers are what was in memory",
            on=[event, event.value],
            effect="the model starts from arbitrary numbers, which may be huge or NaN",
            help=f"fill it, as by `nn.init.xavier_uniform_(self.{event.attribute})`",
            trace=[(made.site, "reserves memory and sets nothing"), (event.site, "becomes a parameter")],
            fix=("Draw small random numbers", _drawn(made.site, ctx)),
        )


def _is_empty(made: Symbol, ctx: Context) -> bool:
    """Whether memory is reserved: ``torch.Tensor(3, 4)`` has sizes, ``torch.Tensor(values)`` has values."""
    if made.name not in _EMPTY or made.arguments is None or made.site is None:
        return False
    given = made.arguments.positional
    return made.name == "torch.empty" or len(given) > 1 or (len(given) == 1 and isinstance(ctx.constant(given[0]), int))


def _drawn(site: Site, ctx: Context) -> Edits:
    call = site.node
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return Edits()
    sizes = ", ".join(ctx.source_of(Site(site.module, each)) for each in call.args)
    rest = "".join(f", {ctx.source_of(Site(site.module, each))}" for each in call.keywords)
    return replace_range(site, f"{ctx.source_of(Site(site.module, call.func.value))}.randn({sizes}{rest}) * 0.02")
