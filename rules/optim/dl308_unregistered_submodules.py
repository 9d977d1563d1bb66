"""Layers in a plain list or dict, which `nn.Module` does not see.

A module registers what is assigned to it directly, and what is in a `ModuleList`, `ModuleDict` or `Sequential`. Layers
in a list, tuple or dict work in `forward`, but `parameters()`, `state_dict()`, `to()` and `eval()` pass them by.

Measured on torch 2.13: of the 8 parameters of a model with `self.layers = [...]` 2 are registered. The others keep
their random start values, are missing from the checkpoint and stay on the CPU.

## Bad
    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = [nn.Linear(64, 64) for _ in range(4)]

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    logits = Deep()(x)

## Good
    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    logits = Deep()(x)

## Not reported
Lists of what has no parameters (`nn.ReLU`, losses), or is set outside of the constructor; names such as `teacher` or
`ema`, and a list of one module, to which nothing is added (the usual way to hide it on purpose); lists that only the
constructor uses, and parameters that other methods than `forward` use; classes that define `parameters` or `state_dict`
themselves, or register by `add_module` or `setattr` what may be in the list; lists that go to the base class, to
something else together with what is in them, into optimizers of their own, or into a call that may put them into
another network; layers that are registered in another way: as attributes of their own, or in a `Sequential` or
`ModuleList` made of the list.

## Fix (unsafe)
Wraps the list in `nn.ModuleList`, the dict in `nn.ModuleDict`. Unsafe because parameters and keys of the checkpoint are
added, as they should be.

## On real code
742 public repositories: 15 findings in 5 of them, all true: layers, embeddings and decoders in lists.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.api import (
    AttributeAssigned,
    Class,
    Context,
    Edits,
    Event,
    Finding,
    Instance,
    Items,
    OpaqueCall,
    OptimizerCreated,
    Rule,
    Site,
    Symbol,
    Table,
    Value,
    alternatives,
    flatten,
    replace_range,
    spelling_of,
)

_BOOKKEEPING = frozenset(
    ("parameters", "named_parameters", "state_dict", "modules", "children", "_apply", "__setattr__", "__getattr__")
)
_BY_NAME = frozenset(("add_module", "register_module"))
_REGISTERING = frozenset(
    ("add_module", "register_module", "register_parameter", "setattr", "_modules", "_parameters", "__dict__")
)


# ------------------------------------------------------------------------------------------------- excuses


def is_hidden_on_purpose(event: AttributeAssigned, owner: Instance, layers: list[Value], ctx: Context) -> bool:
    """its name says that it is not to be trained, or it is a list of one module, which hides that"""
    if any(ctx.speaks_of(topic, event.attribute) for topic in ("averaged-model", "frozen-model", "loss-model")):
        return True
    node = event.value.site.node if event.value.site is not None else None
    is_one = (
        isinstance(node, ast.List | ast.Tuple) and len(node.elts) == 1 and not isinstance(node.elts[0], ast.Starred)
    )
    uses = ctx.attribute_uses(owner.cls, event.attribute) if isinstance(owner.cls, Class) else ()
    return is_one and not any(_is_added_to(use.site, ctx) for use in uses)


def _is_added_to(use: Site, ctx: Context) -> bool:
    """``self.layers.append(layer)``: there is more in the list than what it is made with."""
    around = next(iter(ctx.ancestors(use, ast.Attribute)), None)
    return around is not None and _name(around) in ("append", "extend", "insert")


def is_of_no_use_in_forward(event: AttributeAssigned, owner: Instance, layers: list[Value], ctx: Context) -> bool:
    """only the constructor uses it, or it holds parameters that other methods than `forward` use"""
    users = {method for method, _ in _uses(event, owner, ctx)}
    return not users or (all(map(ctx.is_parameter, layers)) and users != {"forward"})


def keeps_its_own_books(event: AttributeAssigned, owner: Instance, layers: list[Value], ctx: Context) -> bool:
    """the class may register what is in it by other means than attributes, or lists its parameters itself"""
    return any(
        not _BOOKKEEPING.isdisjoint(cls.members) or _registers(cls.node, event.attribute) for cls in _lineage(owner)
    )


def is_handed_to_base(event: AttributeAssigned, owner: Instance, layers: list[Value], ctx: Context) -> bool:
    """the base class gets the list, and may register what is in it"""
    calls = (node for cls in _lineage(owner) for node in ast.walk(cls.node) if isinstance(node, ast.Call))
    return any(
        _name(call.func) == "__init__" and any(_name(each) == event.attribute for each in _given(call))
        for call in calls
    )


def is_put_elsewhere(event: AttributeAssigned, owner: Instance, layers: list[Value], ctx: Context) -> bool:
    """the constructor gives what it adds to the list to something else, too, together with a place for it"""
    return any(_puts_elsewhere(cls, event.attribute) for cls in _lineage(owner))


def has_optimizers_of_its_own(event: AttributeAssigned, owner: Instance, layers: list[Value], ctx: Context) -> bool:
    """the class makes optimizers for what is in the list, or what is in it has optimizers of its own"""
    made = [made.parameters for made in ctx.all_of(OptimizerCreated) if made.parameters is not None]
    if any(ctx.reaches(given, layer) and not ctx.reaches(given, owner) for given in made for layer in layers):
        return True
    kept = (held for layer in layers if isinstance(layer, Instance) for held in layer.attributes.values())
    if any(ctx.role(held) == "optimizer" for held in kept):
        return True
    makers = {name.rpartition(".")[2] for name, role in ctx.facts.roles.items() if role == "optimizer"}
    calls = (node for cls in _lineage(owner) for node in ast.walk(cls.node) if isinstance(node, ast.Call))
    return any(
        (_name(call.func) in makers or ctx.speaks_of("optimizer", ast.unparse(call.func)))
        and any(_takes_parameters(each, event.attribute) for given in _given(call) for each in ast.walk(given))
        for call in calls
    )


def is_registered_otherwise(event: AttributeAssigned, owner: Instance, layers: list[Value], ctx: Context) -> bool:
    """the layers are registered in another way, or were handed in"""
    known = _registered(owner, ctx) | {id(value) for given in owner.arguments.all() for value in flatten(given)}
    return any(id(layer) in known or _is_made_of(layer, known, ctx) for layer in layers)


def _is_made_of(layer: Value, known: set[int], ctx: Context) -> bool:
    """Whether a `Sequential` or the like has its parameters from modules that are known."""
    given = layer.arguments.all() if isinstance(layer, Instance) and layer.library_name.startswith("torch.nn.") else ()
    parts = [inner for argument in given for inner in flatten(argument) if ctx.has_parameters(inner)]
    return bool(parts) and all(id(part) in known for part in parts)


def is_passed_on(event: AttributeAssigned, owner: Instance, layers: list[Value], ctx: Context) -> bool:
    """the constructor gives the list, or what is in it, to something that may register it"""
    wanted = {id(event.value), *map(id, layers)}
    calls = (call for call in ctx.all_of(OpaqueCall) if _is_in_constructor(call))
    return any(id(each) in wanted for call in calls for given in call.values for each in (given, *flatten(given)))


class UnregisteredSubmodules(Rule):
    code = "DL308"
    name = "unregistered-submodules"
    category = "correctness"
    severity = "error"
    triggers = (("Module", "LightningModule", "PreTrainedModel"),)
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleList.html",)
    excuses = (
        is_hidden_on_purpose,
        is_of_no_use_in_forward,
        keeps_its_own_books,
        is_handed_to_base,
        is_put_elsewhere,
        has_optimizers_of_its_own,
        is_registered_otherwise,
        is_passed_on,
    )

    def on_attribute_assigned(self, event: AttributeAssigned, ctx: Context) -> Iterator[Finding]:
        owner = event.target
        if not isinstance(event.value, Items | Table) or not isinstance(owner, Instance) or not _lineage(owner):
            return
        layers = [value for value in flatten(event.value) if ctx.has_parameters(value)]
        if not layers or not ctx.is_module(owner) or not _is_in_constructor(event):
            return
        if not ctx.excused(self, event, owner, layers):
            yield self._report(event, event.value, owner, ctx)

    def _report(self, event: AttributeAssigned, held: Items | Table, owner: Instance, ctx: Context) -> Finding:
        kind = "dict" if isinstance(held, Table) else held.kind
        used = next((site for _, site in _uses(event, owner, ctx)), None)
        trace = [(held.site or event.site, f"the layers are in a plain {kind}")]
        return ctx.finding(
            self,
            event,
            f"the layers in `{event.attribute}` are not registered: they are in a plain {kind}",
            on=held.contents.values() if isinstance(held, Table) else held.items,
            effect="`parameters()`, `state_dict()` and `to()` pass them by: they are neither trained nor saved",
            help=f"put them into `{'nn.ModuleDict' if kind == 'dict' else 'nn.ModuleList'}`",
            trace=[*trace, (used, "and used here")] if used is not None else trace,
            fix=("Put them into a container that registers them", _wrapped(event, held, ctx)),
        )


def _lineage(owner: Instance) -> tuple[Class, ...]:
    """The class of an object and its ancestors in the project."""
    return owner.cls.lineage if isinstance(owner.cls, Class) else ()


def _uses(event: AttributeAssigned, owner: Instance, ctx: Context) -> list[tuple[str, Site]]:
    """The methods other than the constructor that read what is assigned, and where."""
    uses = ctx.attribute_uses(owner.cls, event.attribute) if isinstance(owner.cls, Class) else ()
    return [(use.method, use.site) for use in uses if use.method != "__init__"]


def _registers(cls: ast.ClassDef, attribute: str) -> bool:
    """Whether a class may register by its own code what is in a list, and not only what is certainly elsewhere."""
    for method in cls.body:
        nodes = list(ast.walk(method))
        given = {
            call.func: call.args[1]
            for call in nodes
            if isinstance(call, ast.Call) and _name(call.func) in _BY_NAME and len(call.args) > 1
        }
        if any(
            _name(node) in _REGISTERING and not (node in given and _is_in_another_list(given[node], attribute, nodes))
            for node in nodes
        ):
            return True
    return False


def _is_in_another_list(module: ast.expr, attribute: str, nodes: list[ast.AST]) -> bool:
    """Whether a module is made on the spot, or is in another list of the object: by its index, or in a loop over it.

    ``nodes`` are those of the method.
    """
    if isinstance(module, ast.Name):
        bound = [each for each in nodes if isinstance(each, ast.For) and module.id in _stored(each.target)]
        others = [each for each in nodes if isinstance(each, ast.Assign | ast.AugAssign | ast.NamedExpr | ast.With)]
        if len(bound) != 1 or any(module.id in _stored(each) for each in others):
            return False
        module = bound[0].iter
    elif isinstance(module, ast.Call):
        if not _name(module.func)[:1].isupper():
            return False
    elif not isinstance(module, ast.Subscript):
        return False
    held = {_name(each) for each in ast.walk(module) if isinstance(each, ast.Attribute) and _name(each.value) == "self"}
    return attribute not in held and (bool(held) or isinstance(module, ast.Call))


def _stored(node: ast.AST) -> set[str]:
    """The variables that a statement or target binds, without those of comprehensions."""
    names = (each for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))
    own = {id(part) for each in ast.walk(node) if isinstance(each, ast.comprehension) for part in ast.walk(each.target)}
    return {each.id for each in names if id(each) not in own}


def _is_in_constructor(event: Event) -> bool:
    return any(frame.function == "__init__" for frame in event.frame.stack())


def _puts_elsewhere(cls: Class, attribute: str) -> bool:
    """Whether what a constructor adds to a list is also an argument of a call that gets more than one."""
    constructor = next((node for node in cls.node.body if getattr(node, "name", "") == "__init__"), None)
    inside = list(ast.walk(constructor)) if constructor is not None else []
    calls = [node for node in inside if isinstance(node, ast.Call)]
    added = {name for call in calls if _is_held_in(call.func, attribute) for name in _variables(call.args)}
    for node in inside:
        if isinstance(node, ast.Assign) and any(_is_held_in(target, attribute) for target in node.targets):
            added.update(_variables([node.value]))
    others = [call for call in calls if len(call.args) > 1 and not _is_held_in(call.func, attribute)]
    return any(name in added for call in others for name in _variables(call.args))


def _is_held_in(node: ast.expr, attribute: str) -> bool:
    """``self.layers[key]`` or ``self.layers.append``."""
    held = node.value if isinstance(node, ast.Subscript | ast.Attribute) else None
    return isinstance(held, ast.Attribute) and held.attr == attribute


def _takes_parameters(node: ast.AST, attribute: str) -> bool:
    """``self.layers[0].parameters()``."""
    if not isinstance(node, ast.Call) or _name(node.func) != "parameters":
        return False
    return any(isinstance(each, ast.Attribute) and each.attr == attribute for each in ast.walk(node.func))


def _variables(nodes: list[ast.expr]) -> list[str]:
    return [node.id for node in nodes if isinstance(node, ast.Name)]


def _name(node: ast.AST) -> str:
    """The last part of a name."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _registered(owner: Instance, ctx: Context) -> set[int]:
    """The identities of all modules that can be got at from a module by registered ways."""
    found: set[int] = set()
    pending: list[Value] = [owner]
    while pending:
        value = pending.pop()
        if id(value) in found:
            continue
        found.add(id(value))
        if isinstance(value, Symbol):  # it may keep what it was made from
            pending.extend(inner for source in ctx.sources(value) for inner in flatten(source))
        elif isinstance(value, Instance):
            held = [option for kept in value.attributes.values() for _, option in alternatives(kept)]
            pending.extend(option for option in held if not isinstance(option, Items | Table))
            pending.extend(flatten(value.attributes.get("<items>")))
            if value is not owner:  # a module that is given others keeps them, nearly always
                pending.extend(inner for argument in value.arguments.all() for inner in flatten(argument))
    return found


# --------------------------------------------------------------------------------------------------- the fix


def _wrapped(event: AttributeAssigned, held: Items | Table, ctx: Context) -> Edits:
    """Put the list into a ``ModuleList``, or the dict into a ``ModuleDict``, where all of it is modules."""
    node = held.site.node if held.site is not None else None
    prefix = spelling_of("torch.nn", event.site)
    inside = held.items if isinstance(held, Items) else tuple(held.contents.values())
    if not prefix or any(not isinstance(each, Instance) or ctx.is_parameter(each) for each in inside):
        return Edits()
    if isinstance(node, ast.List | ast.ListComp) and node.lineno >= event.site.line:
        container = "ModuleList"
    elif isinstance(node, ast.Dict) and all(_is_key(key) for key in node.keys):
        container = "ModuleDict"
    else:
        return Edits()
    place = Site(event.site.module, node)
    return replace_range(place, f"{prefix}.{container}({ctx.source_of(place)})")


def _is_key(node: ast.expr | None) -> bool:
    """Whether a key of a dict can be one of a ``ModuleDict``."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and "." not in node.value
