"""An attribute that is set on an optimizer, layer or parameter and that torch does not read.

Python lets any attribute be set on these objects. `optimizer.lr = 1e-4` leaves the rate as it is, which stands in
`optimizer.param_groups`. `layer.weights = ...` adds something beside `layer.weight`, `p.grads = None` clears nothing,
and `model.train = False` replaces the method by a flag.

Measured on torch 2.13: after `optimizer.lr = 1.0` the group of parameters has `lr` .001 as before; after
`layer.weights = torch.zeros(2, 4)` the weight is what it was; after `p.grads = None` the gradient is there; after
`model.train = False` the module is in training mode. None of it says a word.

## Bad
    for epoch in range(epochs):
        optimizer.lr = base_lr * 0.9**epoch

## Good
    for epoch in range(epochs):
        for group in optimizer.param_groups:
            group["lr"] = base_lr * 0.9**epoch

## Not reported
Objects of which it is not known what they are, classes of one's own, and names that the file also reads, but to print
or log them; what the function sets in the groups of parameters as well.

## Fix (unsafe)
Writes the right name for `weights`, `biases` and `grads`. Unsafe because the assignment then does what it says.

## On real code
233 public repositories: no finding.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    AttributeAssigned,
    Context,
    Edits,
    Finding,
    Instance,
    Rule,
    Site,
    alternatives,
    nodes_of,
    rename_attribute,
)

_OF_GROUPS = ("lr", "learning_rate", "weight_decay", "momentum", "betas", "eps")
_OF_LAYERS = {"weights": "weight", "wieght": "weight", "weigth": "weight", "biases": "bias", "bais": "bias"}
_OF_PARAMETERS = {"grads": "grad", "gard": "grad", "gradient": "grad"}
_METHODS = ("train", "eval")


# ------------------------------------------------------------------------------------------------- excuses


def is_read_in_the_file(event: AttributeAssigned, ctx: Context) -> bool:
    """the file reads an attribute of that name, and not only to show it, so that it is its own"""
    here = (tree for module, tree in ctx.trees(event.attribute) if module is event.site.module)
    nodes = (node for tree in here for node in nodes_of(tree).attributes.get(event.attribute, ()))
    owner = _owner(event)
    return event.attribute not in _METHODS and any(
        isinstance(node.ctx, ast.Load)
        and ast.unparse(node.value) == owner
        and not _is_shown(Site(event.site.module, node), ctx)
        for node in nodes
    )


def _is_shown(read: Site, ctx: Context) -> bool:
    """Whether what is read goes into a call that prints or logs it, of which nobody takes what it returns."""
    statement = next(ctx.ancestors(read, ast.stmt), None)
    calls = ctx.ancestors(read, ast.Call)
    names = [ast.unparse(call.func).rpartition(".")[2] for call in calls if isinstance(call, ast.Call)]
    return isinstance(statement, ast.Expr) and any(ctx.speaks_of("logging", name) for name in names)


def is_set_in_groups_as_well(event: AttributeAssigned, ctx: Context) -> bool:
    """the function sets it in the groups of parameters, too, so that the attribute is a note"""
    around = next(ctx.ancestors(event.site, ast.FunctionDef, ast.Module), event.site.module.tree)
    key = "lr" if event.attribute == "learning_rate" else event.attribute
    return event.attribute in _OF_GROUPS and any(
        isinstance(each.ctx, ast.Store) and isinstance(each.slice, ast.Constant) and each.slice.value == key
        for each in nodes_of(around).of(ast.Subscript)
    )


def is_of_its_own_class(event: AttributeAssigned, ctx: Context) -> bool:
    """a class of the project may have a use for the attribute"""
    return event.attribute not in _METHODS and any(not option.library_name for option in _options(event, ctx))


class AttributeTypo(Rule):
    code = "DL218"
    name = "attribute-typo"
    category = "correctness"
    severity = "error"
    since = "0.1.0"
    triggers = ((*_OF_GROUPS, *_OF_LAYERS, *_OF_PARAMETERS, *_METHODS),)
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/optim.html#per-parameter-options",)
    excuses = (is_read_in_the_file, is_set_in_groups_as_well, is_of_its_own_class)

    def on_attribute_assigned(self, event: AttributeAssigned, ctx: Context) -> Iterator[Finding]:
        if not isinstance(event.site.node, ast.Attribute) or _owner(event) == "self":
            return
        options = _options(event, ctx)
        found = {_what_is_meant(event, option, ctx) for option in options}
        meant = found.pop() if len(found) == 1 else None
        if meant is None or ctx.excused(self, event):
            return
        message, advice, name = meant
        yield ctx.finding(
            self,
            event,
            message,
            on=options,
            effect="nothing that torch does changes by it",
            help=advice,
            fix=(f"Set `{name}`", rename_attribute(event.site, name) if name else Edits()),
        )


def _owner(event: AttributeAssigned) -> str:
    return ast.unparse(event.site.node.value) if isinstance(event.site.node, ast.Attribute) else ""


def _options(event: AttributeAssigned, ctx: Context) -> list[Instance]:
    """All that the attribute may be set on, if that is known; on `None`, Python lets nothing be set."""
    options = [option for _, option in alternatives(event.target) if not ctx.is_none(option)]
    known = [option for option in options if isinstance(option, Instance)]
    return known if len(known) == len(options) else []


def _what_is_meant(event: AttributeAssigned, target: Instance, ctx: Context) -> tuple[str, str, str] | None:
    """What is wrong with an attribute of an object, what to do, and its right name, if that is all."""
    attribute = event.attribute
    if attribute in _OF_GROUPS and target.library_name.startswith("torch.optim."):
        is_optimizer = ctx.role(target) == "optimizer"
        advice = f'set `group["{"lr" if attribute == "learning_rate" else attribute}"]` of all `optimizer.param_groups`'
        return (f"no optimizer of torch reads its `{attribute}`", advice, "") if is_optimizer else None
    if attribute in _OF_LAYERS and target.library_name.startswith("torch.nn.") and ctx.has_parameters(target):
        name = _OF_LAYERS[attribute]
        return f"`{attribute}` is not `{name}`: this layer does not read it", f"set `{name}`", name
    if attribute in _OF_PARAMETERS and ctx.is_parameter(target):
        return f"`{attribute}` is not `grad`: setting it sets nothing", "set `grad`", "grad"
    is_flag = isinstance(ctx.constant(event.value), bool)
    if attribute in _METHODS and is_flag and ctx.is_module(target):
        return f"`{attribute}` is a method: setting it sets no mode", f"call `{attribute}()`", ""
    return None
