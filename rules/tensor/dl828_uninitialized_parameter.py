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
Parameters that are handed to a function or changed in place; those that the class or code that names it may fill: by
name, in a loop over all parameters, with a function of other code, or from a checkpoint; classes that others extend or
that build on others; `torch.Tensor(values)` of values.

## Fix (unsafe)
Draws small random numbers instead: `torch.randn(...) * 0.02`. Unsafe because it changes the numbers, as it should.

## On real code
138 public repositories: no finding.

Off by default: in 28 batches of unread repositories all 4 findings were false: weights are loaded into the model, by
code that does not name it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from dllint.api import (
    AttributeAssigned,
    Class,
    Context,
    Edits,
    Finding,
    Instance,
    Rule,
    Site,
    Symbol,
    replace_range,
    statement_around,
)

_EMPTY = frozenset(("torch.empty", "torch.Tensor", "torch.FloatTensor", "torch.cuda.FloatTensor"))
_FILLS = r"\binit\.\w|\.(?:normal|uniform|fill|zero|copy|trunc)\w*_\("
_INITIALIZES = r"\binit_[a-z]|[a-z]_init\b|_init_[a-z]|initiali[sz]e|\breset_(?:param|weight)"
_ALL = ("parameters", "state_dict")  # what a loop goes through that fills whatever there is


# ------------------------------------------------------------------------------------------------- excuses


def is_touched(event: AttributeAssigned, owner: Instance, made: Symbol, ctx: Context) -> bool:
    """a method hands it on, changes it in place or takes `.data` of it outside of `forward`, or none reads it"""
    assert isinstance(owner.cls, Class)
    uses = ctx.attribute_uses(owner.cls, event.attribute)
    outside = (next(ctx.ancestors(use.site, ast.AST)) for use in uses if use.method != "forward")
    return not uses or not all(map(_only_reads, outside))


def is_filled_elsewhere(event: AttributeAssigned, owner: Instance, made: Symbol, ctx: Context) -> bool:
    """the class, or code that names it, fills this parameter or all of them"""
    assert isinstance(owner.cls, Class)
    words = (event.attribute, "Parameter", "parameters", "hasattr", owner.cls.name)
    own = (node for ancestor in owner.cls.lineage for node in ast.walk(ancestor.node))
    nodes = [*own, *ctx.code_around(owner.cls)]
    names = [event.attribute, *_variables_of(made)]
    if any(_fills_all(node) or _initializes(node, words, ctx) for node in nodes):
        return True
    if any(_fills(node, name) for node in nodes for name in names):
        return True
    if ctx.program.kind != "module" and ctx.project_mentions(r"\.load_state_dict\("):
        return True  # no script shows who makes the object, so that it may be who loads
    return any(map(_loads, nodes)) and not _begins_without_checkpoint(ctx)


def builds_on_others(event: AttributeAssigned, owner: Instance, made: Symbol, ctx: Context) -> bool:
    """the class has other ancestors than `nn.Module`, which may fill it"""
    assert isinstance(owner.cls, Class)
    return len(owner.cls.lineage) > 1 or owner.cls.library_bases != ("torch.nn.Module",)


class UninitializedParameter(Rule):
    code = "DL828"
    name = "uninitialized-parameter"
    category = "correctness"
    severity = "error"
    default = False
    triggers = (("Parameter",), ("empty", "Tensor", "FloatTensor"))
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.empty.html",)
    excuses = (builds_on_others, is_touched, is_filled_elsewhere)

    def on_attribute_assigned(self, event: AttributeAssigned, ctx: Context) -> Iterator[Finding]:
        owner, value = event.target, event.value
        if not isinstance(owner, Instance) or not isinstance(owner.cls, Class) or not isinstance(value, Instance):
            return
        made = value.arguments.get(0, "data") if value.library_name == "torch.nn.Parameter" else None
        if isinstance(made, Symbol) and _is_reserved(made, ctx) and not ctx.excused(self, event, owner, made):
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


def _variables_of(made: Symbol) -> list[str]:
    """The variables that it is bound to where it is made: a helper fills them, and returns the parameter."""
    statement = statement_around(made.site) if made.site is not None else None
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _only_reads(parent: ast.AST) -> bool:
    """Whether a part of it is an operand, an argument of a function of torch, or the owner of a method that copies."""
    if isinstance(parent, ast.Attribute):
        return parent.attr != "data" and not parent.attr.endswith("_")
    if isinstance(parent, ast.Call):
        called = ast.unparse(parent.func)
        return called.startswith(("torch.", "F.")) and not called.endswith("_")
    return isinstance(parent, ast.BinOp | ast.Compare)


def _fills(node: ast.AST, attribute: str = "") -> bool:
    is_fill = isinstance(node, ast.Call) and re.search(_FILLS, f"{ast.unparse(node.func)}(") is not None
    return is_fill and attribute in ast.unparse(node)


def _fills_all(node: ast.AST) -> bool:
    """Whether a loop fills all parameters."""
    is_loop = isinstance(node, ast.For) and any(word in ast.unparse(node.iter) for word in _ALL)
    return is_loop and any(map(_fills, ast.walk(node)))


def _loads(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "load_state_dict"


def _begins_without_checkpoint(ctx: Context) -> bool:
    """Whether the project trains, and nothing here speaks of weights that somebody else has trained."""
    return ctx.project_mentions(r"\.backward\(") and not ctx.project_mentions("pretrained", where="here")


def _initializes(node: ast.AST, words: Sequence[str], ctx: Context) -> bool:
    """Whether a function is called, or handed to `apply`, that may fill any parameter: one of other code, or with these
    words in it."""
    if not isinstance(node, ast.Call):
        return False
    called = node.func
    if isinstance(called, ast.Attribute) and called.attr == "apply" and len(node.args) == 1:
        called = node.args[0]
    elif re.search(_INITIALIZES, ast.unparse(called)) is None or _is_of_part(called):
        return False
    name = ast.unparse(called).rpartition(".")[2]
    found = [each for _, tree in ctx.trees(name) for each in ast.walk(tree) if getattr(each, "name", "") == name]
    is_own = ast.unparse(called).startswith("self.")
    return (not found and not is_own) or any(word in ast.unparse(each) for each in found for word in words)


def _is_of_part(called: ast.expr) -> bool:
    """Whether it is a method of a part of the module: `self.layer.reset_parameters`."""
    return isinstance(called, ast.Attribute) and isinstance(called.value, ast.Attribute)


def _is_reserved(made: Symbol, ctx: Context) -> bool:
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
