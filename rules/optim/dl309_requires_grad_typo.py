"""A freeze that freezes nothing: `requires_grad` set on a module, or misspelt.

Python lets any attribute be set on a module or parameter. `backbone.requires_grad = False` sets one that nobody reads:
the parameters of the module go on being trained. So do `p.require_grad = False`, and `p.requires_grad_ = False`, which
replaces a method.

Measured on torch 2.13: after `module.requires_grad = False` all parameters still have `requires_grad=True`; after
`param.require_grad`, `requires_grads` or `required_grad = False` and after `param.requires_grad_ = False` so do they.
None of it says a word.

## Bad
    model.backbone.requires_grad = False
    for p in model.encoder.parameters():
        p.require_grad = False

## Good
    model.backbone.requires_grad_(False)
    for p in model.encoder.parameters():
        p.requires_grad = False

## Not reported
Tensors and parameters, which have this attribute; classes that read an attribute of that name themselves;
`self.requires_grad = ...` in a class of one's own; objects that are not known to be modules. A misspelling that would
only switch off what is off anyway (`torch.zeros(n).require_grad = False`), or on what is on, is reported only when the
rule is selected by name.

## Fix (unsafe)
Writes `module.requires_grad_(...)`, or the right name. Unsafe because it changes what is trained, as it should.

## On real code
742 public repositories: 11 findings in 10 of them, all but one true: layers and models that were meant to be frozen
and are not. One is doubtful: the tensor is only saved.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from dllint.api import (
    Assumption,
    AttributeAssigned,
    Class,
    Context,
    Edit,
    Finding,
    Fix,
    Instance,
    ModeChange,
    Rule,
    Site,
    Symbol,
    Value,
    offer,
    replace_range,
)

_NAME = "requires_grad"
_MISSPELT = (
    {_NAME[:i] + _NAME[i + 1 :] for i in range(1, len(_NAME))}
    | {_NAME[:i] + _NAME[i + 1] + _NAME[i] + _NAME[i + 2 :] for i in range(1, len(_NAME) - 1)}
    | {"require_grads", "requires_grads", "required_grad", "required_grads", "requiresGrad", "requireGrad"}
    | {"require_gradient", "requires_gradient", "require_gradients", "requires_gradients", "requires_grad_"}
) - {_NAME}
_OF_PARAMETERS = ("parameters", "named_parameters")
_OF_MODULES = ("children", "modules", "named_children", "named_modules")
_PARAMETERS = ("weight", "bias", "in_proj_weight", "in_proj_bias", "pos_embed", "cls_token")
_PARTS = re.compile(r"features|classifier|fc|conv1|bn1|layer[1-4]|backbone|encoder|decoder|head|stem")


class RequiresGradTypo(Rule):
    code = "DL309"
    name = "requires-grad-typo"
    category = "correctness"
    severity = "error"
    triggers = ((_NAME, *sorted(_MISSPELT)),)
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.requires_grad_",)

    def on_attribute_assigned(self, event: AttributeAssigned, ctx: Context) -> Iterator[Finding]:
        target, node = event.target, event.site.node
        if not isinstance(node, ast.Attribute) or _is_own(node, event):
            return  # calls of `requires_grad_` are assignments, too
        if event.attribute == _NAME:
            if _is_module(target, ctx) and not _reads(target, _NAME):
                yield self._on_module(event, ctx)
        elif event.attribute in _MISSPELT:
            if _is_parameter(target, ctx) or (_is_module(target, ctx) and not _reads(target, event.attribute)):
                yield self._misspelt(event, ctx, certain=True)
            elif isinstance(target, Symbol) and self._is_switch(event, ctx) and not _is_read(event, ctx):
                yield self._misspelt(event, ctx, certain=False)

    def _is_switch(self, event: AttributeAssigned, ctx: Context) -> bool:
        return isinstance(ctx.constant(event.value), bool)

    def _on_module(self, event: AttributeAssigned, ctx: Context) -> Finding:
        return ctx.finding(
            self,
            event,
            "`requires_grad` set on a module: none of its parameters change",
            effect="what was to be frozen is trained"
            if ctx.constant(event.value) is False
            else "its parameters stay as they are, frozen or not",
            help="call `requires_grad_(...)`, which sets it on all parameters of the module",
            trace=[(event.site, "a module has no such attribute, and nobody reads it")],
            fixes=_as_call(event, ctx),
        )

    def _misspelt(self, event: AttributeAssigned, ctx: Context, *, certain: bool) -> Finding:
        on_module = _is_module(event.target, ctx)
        value = ctx.constant(event.value)
        is_on = (
            value is True and isinstance(event.target, Instance) and event.target.library_name == "torch.nn.Parameter"
        )
        is_vain = is_on or (not certain and value is False and _is_fresh_tensor(event.target))
        return ctx.finding(
            self,
            event,
            "`requires_grad_` is a method: assigning to it sets nothing"
            if event.attribute == "requires_grad_"
            else f"`{event.attribute}` is not `{_NAME}`: assigning to it sets nothing",
            effect="harmless here: it carries gradients anyway"
            if is_on
            else "harmless here: the tensor carries no gradients anyway"
            if is_vain
            else "the parameters stay as they are: what was to be frozen is trained",
            help="call `requires_grad_(...)`" if on_module else f"set `{_NAME}`",
            trace=[(event.site, "Python sets any attribute without complaint")],
            fixes=_as_call(event, ctx) if on_module else _renamed(event),
            severity="info" if is_vain else None,
            assuming=[] if certain else [Assumption("name", "what is assigned to is a module, as its name says")],
            pedantic=is_vain,
        )


def _is_fresh_tensor(value: Value) -> bool:
    """Whether a value is computed, by functions or methods of tensors, rather than read from somewhere."""
    return isinstance(value, Symbol) and value.name.startswith(("torch.", "."))


def _is_own(node: ast.Attribute, event: AttributeAssigned) -> bool:
    """Whether a method sets an attribute of its own object."""
    definition: Any = event.frame.definition.node if event.frame.definition is not None else None
    parameters = definition.args.args if isinstance(definition, ast.FunctionDef) and event.frame.owner else []
    return bool(parameters) and isinstance(node.value, ast.Name) and node.value.id == parameters[0].arg


def _is_module(target: Value, ctx: Context) -> bool:
    """Whether a value is certainly a module."""
    options = ctx.objects(target)
    return bool(options) and all(_is_one_module(option, ctx) for option in options)


def _is_one_module(value: Value, ctx: Context) -> bool:
    if isinstance(value, Instance):
        if isinstance(value.cls, Class):
            return any(name.startswith("torch.nn.") or name.endswith("Module") for name in ctx.library_bases(value))
        return ctx.role(value) in ("module", "wrapper")
    if not isinstance(value, Symbol):
        return False
    if _comes_from(value, _OF_MODULES) or _is_used_as_module(value, ctx):
        return True
    owner = value.inputs[0] if value.name == "attribute" else None
    is_library = isinstance(owner, Instance) and bool(owner.library_name) and ctx.role(owner) == "module"
    return is_library and bool(_PARTS.fullmatch(str(value.detail)))


def _is_used_as_module(value: Value, ctx: Context) -> bool:
    """Whether something unresolved has its mode changed, or its parameters listed: only modules have that."""
    return any(ctx.is_same(event.model, value) for event in ctx.all_of(ModeChange))


def _is_parameter(value: Value, ctx: Context) -> bool:
    if isinstance(value, Instance):
        return value.library_name == "torch.nn.Parameter"
    if not isinstance(value, Symbol):
        return False
    return _comes_from(value, _OF_PARAMETERS) or (value.name == "attribute" and value.detail in _PARAMETERS)


def _comes_from(value: Symbol, methods: tuple[str, ...]) -> bool:
    """Whether a value is an element of what one of these methods of a module returns."""
    for _ in range(4):
        if value.name in methods:
            return True
        if value.name not in ("element", "item", "slice", "list", "filter", "enumerate") or not value.inputs:
            return False
        inner = value.inputs[0]
        if not isinstance(inner, Symbol):
            return False
        value = inner
    return False


def _reads(target: Value, attribute: str) -> bool:
    """Whether the class of a module has a use for the attribute."""
    classes = [target.cls] if isinstance(target, Instance) and isinstance(target.cls, Class) else []
    return any(
        isinstance(node, ast.Attribute) and node.attr == attribute and getattr(node.value, "id", "") == "self"
        for cls in classes
        for node in ast.walk(cls.node)
    ) or any(attribute in cls.members for cls in classes)


def _is_read(event: AttributeAssigned, ctx: Context) -> bool:
    """Whether the file reads an attribute, or knows a parameter, of that name: then it is an invention of its own."""
    return any(
        (isinstance(node, ast.Attribute) and node.attr == event.attribute and isinstance(node.ctx, ast.Load))
        or (isinstance(node, ast.arg | ast.keyword) and node.arg == event.attribute)
        for module, tree in ctx.trees(event.attribute)
        if module is event.site.module
        for node in ast.walk(tree)
    )


def _as_call(event: AttributeAssigned, ctx: Context) -> list[Fix]:
    """``module.requires_grad = flag`` as ``module.requires_grad_(flag)``."""
    tree = event.site.module.tree
    node: Any = event.site.node
    statement = next((s for s in ast.walk(tree) if isinstance(s, ast.Assign) and s.targets == [node]), None)
    if statement is None:
        return []
    module, value = Site(event.site.module, node.value), Site(event.site.module, statement.value)
    edits = replace_range(event.site, f"{ctx.source_of(module)}.requires_grad_({ctx.source_of(value)})", end=value)
    return offer("Call `requires_grad_`", edits, "unsafe", of=event.site, at=event.site)


def _renamed(event: AttributeAssigned) -> list[Fix]:
    node: Any = event.site.node
    source = event.site.module.source
    end = source.offset(node.end_lineno, node.end_col_offset)
    edit = Edit(end - len(event.attribute), end, _NAME)
    return offer(f"Set `{_NAME}`", (edit,), "unsafe", of=event.site, at=event.site)
