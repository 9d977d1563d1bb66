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
Lists whose layers are registered in some way: as attributes of their own, in a `Sequential` or `ModuleList` made of the
list, by `add_module` or `setattr`, or by a call that puts them into another network; layers without parameters
(`nn.ReLU`, losses); modules that are handed in, a list of one module (the usual way to hide it on purpose), and names
such as `teacher` or `ema`; classes that define `parameters` or `state_dict` themselves; lists that only the constructor
uses, and parameters that other methods than `forward` use.

## Fix (unsafe)
Wraps the list in `nn.ModuleList`, the dict in `nn.ModuleDict`. Unsafe because parameters and keys of the checkpoint are
added, as they should be.

## On real code
742 public repositories: 15 findings in 5 of them, all true: layers, embeddings and decoders in lists.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dllint.api import (
    AttributeAssigned,
    Class,
    Context,
    Event,
    Finding,
    Fix,
    Instance,
    Items,
    OpaqueCall,
    Program,
    Rule,
    Site,
    Symbol,
    Table,
    Value,
    alternatives,
    offer,
    replace_range,
)

_WITH_PARAMETERS = re.compile(
    r"torch\.nn\.(Lazy)?(Linear|Bilinear|Conv|Embedding|BatchNorm|SyncBatchNorm|LayerNorm|GroupNorm|RMSNorm"
    r"|LSTM|GRU|RNN|MultiheadAttention|Transformer|PReLU)"
)
_CONTAINERS = ("torch.nn.Sequential", "torch.nn.ModuleList", "torch.nn.ModuleDict")
_OWN_BOOKKEEPING = frozenset(
    ("parameters", "named_parameters", "state_dict", "modules", "children", "_apply", "__setattr__", "__getattr__")
)
_REGISTERS = re.compile(r"\b(add_module|register_module|register_parameter|setattr|_modules|_parameters|__dict__)\b")
_OPTIMIZER = re.compile(r"(^|\.)optim\w*\.|(SGD|Adam\w*|RMSprop|LBFGS)$")
_HIDDEN_ON_PURPOSE = re.compile(r"teacher|(^|_)ema|target|frozen|pretrain|momentum|loss|criteri|metric|perceptual|vgg")
_MAX_DEPTH = 6


class UnregisteredSubmodules(Rule):
    code = "DL308"
    name = "unregistered-submodules"
    category = "correctness"
    severity = "error"
    triggers = (("Module", "LightningModule", "PreTrainedModel"),)
    confirmable = True
    fix_safety = "unsafe"
    references = ("https://docs.pytorch.org/docs/stable/generated/torch.nn.ModuleList.html",)

    def on_program(self, program: Program, ctx: Context) -> Iterator[Finding]:
        for event in ctx.events:
            if not isinstance(event, AttributeAssigned) or not isinstance(event.value, Items | Table):
                continue
            owner = event.target
            if isinstance(owner, Instance) and isinstance(owner.cls, Class) and self._is_forgotten(event, owner, ctx):
                yield self._report(event, owner.cls, ctx)

    def _is_forgotten(self, event: AttributeAssigned, owner: Instance, ctx: Context) -> bool:
        layers = [value for value in _contents(event.value) if _has_parameters(value, ctx)]
        if not layers or not _is_module(owner, ctx) or not _is_in_constructor(event) or _is_hidden_on_purpose(event):
            return False
        users = _users(owner, event.attribute)
        if not users or (_are_parameters(layers) and users != {"forward"}) or _keeps_its_own_books(owner, ctx):
            return False
        if any(
            _is_handed_to_base(cls, event.attribute)
            or _is_put_elsewhere(cls, event.attribute)
            or _has_optimizers(cls, event.attribute)
            for cls in _classes(owner)
        ):
            return False
        known = _registered(owner, ctx) | {id(value) for given in owner.arguments.all() for value in _contents(given)}
        return not any(id(layer) in known for layer in layers) and not _is_passed_on(event.value, layers, ctx)

    def _report(self, event: AttributeAssigned, cls: Class, ctx: Context) -> Finding:
        kind = "dict" if isinstance(event.value, Table) else getattr(event.value, "kind", "list")
        container = "nn.ModuleDict" if kind == "dict" else "nn.ModuleList"
        used = next((site for _, site in _uses(cls, event.attribute)), None)
        trace = [(event.value.site or event.site, f"the layers are in a plain {kind}")]
        return ctx.finding(
            self,
            event,
            f"the layers in `{event.attribute}` are not registered: they are in a plain {kind}",
            effect="`parameters()`, `state_dict()` and `to()` pass them by: they are neither trained nor saved",
            help=f"put them into `{container}`",
            trace=[*trace, (used, "and used here")] if used is not None else trace,
            fixes=_fixes(event, ctx),
        )


def _contents(value: Value, depth: int = 0) -> list[Value]:
    """The values in lists and dicts, however nested, and the options of each; of anything else, the value itself."""
    if depth > _MAX_DEPTH:
        return []
    if isinstance(value, Items):
        return [inner for item in value.items for inner in _contents(item, depth + 1)]
    if isinstance(value, Table):
        return [inner for item in value.contents.values() for inner in _contents(item, depth + 1)]
    options = [option for _, option in alternatives(value)]
    if len(options) == 1:
        return options
    return [inner for option in options for inner in _contents(option, depth + 1)]


def _is_module(value: Value, ctx: Context) -> bool:
    bases = ctx.library_bases(value)
    return any(name == "torch.nn.Module" or name.endswith(("LightningModule", "PreTrainedModel")) for name in bases)


def _has_parameters(value: Value, ctx: Context, depth: int = 0) -> bool:
    """Whether a value is certainly a module with parameters, or a parameter."""
    if not isinstance(value, Instance) or depth > _MAX_DEPTH or _is_filter(value, ctx):
        return False
    if isinstance(value.cls, Class):
        inner = list(value.attributes.values()) if _is_module(value, ctx) else []
        return any(_has_parameters(option, ctx, depth + 1) for held in inner for _, option in alternatives(held))
    if value.cls in _CONTAINERS:
        given = [inner for argument in value.arguments.all() for inner in _contents(argument)]
        return any(_has_parameters(inner, ctx, depth + 1) for inner in given)
    return value.cls == "torch.nn.Parameter" or bool(_WITH_PARAMETERS.match(value.cls))


def _is_filter(layer: Instance, ctx: Context) -> bool:
    """Whether a layer was given a weight that is not trained, as one that filters images."""
    weight = layer.attributes.get("weight")
    made = [option for _, option in alternatives(weight)] if weight is not None else []
    flags = [
        each.arguments.get(1, "requires_grad")
        for each in made
        if isinstance(each, Instance | Symbol) and each.arguments is not None
    ]
    return bool(flags) and all(flag is not None and ctx.constant(flag) is False for flag in flags)


def _are_parameters(layers: list[Value]) -> bool:
    return all(isinstance(layer, Instance) and layer.library_name == "torch.nn.Parameter" for layer in layers)


def _is_in_constructor(event: Event) -> bool:
    return any(frame.function == "__init__" for frame in event.frame.stack())


def _is_hidden_on_purpose(event: AttributeAssigned) -> bool:
    if _HIDDEN_ON_PURPOSE.search(event.attribute.lower()):
        return True
    node = event.value.site.node if event.value.site is not None else None
    return isinstance(node, ast.List | ast.Tuple) and len(node.elts) == 1 and not isinstance(node.elts[0], ast.Starred)


def _classes(owner: Instance) -> list[Class]:
    """The class of an object and those of its ancestors that are the project's."""
    found: list[Class] = []
    pending: list[Value] = [owner.cls] if isinstance(owner.cls, Class) else []
    while pending:
        cls = pending.pop()
        if isinstance(cls, Class) and not any(cls is known for known in found):
            found.append(cls)
            pending.extend(option for base in cls.bases for _, option in alternatives(base))
    return found


def _keeps_its_own_books(owner: Instance, ctx: Context) -> bool:
    """Whether the class registers modules by other means than attributes, or lists its parameters itself."""
    return any(
        not _OWN_BOOKKEEPING.isdisjoint(cls.members) or _REGISTERS.search(ctx.source_of(Site(cls.module, cls.node)))
        for cls in _classes(owner)
    )


def _is_handed_to_base(cls: Class, attribute: str) -> bool:
    """Whether a class gives a list to the constructor of its base, as pipelines do, which registers what is in it."""
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "__init__"
        and any(isinstance(each, ast.Attribute) and each.attr == attribute for each in _given(node))
        for node in ast.walk(cls.node)
    )


def _is_put_elsewhere(cls: Class, attribute: str) -> bool:
    """Whether the constructor also gives what it adds to the list to something else, together with a place for it."""
    constructor = next((node for node in cls.node.body if getattr(node, "name", "") == "__init__"), None)
    calls = [node for node in ast.walk(constructor) if isinstance(node, ast.Call)] if constructor is not None else []
    added = {name for call in calls if _is_of(call.func, attribute) for name in _names(call.args)}
    for node in ast.walk(constructor) if constructor is not None else ():
        if isinstance(node, ast.Assign) and any(_is_of(target, attribute) for target in node.targets):
            added.update(_names([node.value]))
    others = [call for call in calls if len(call.args) > 1 and not _is_of(call.func, attribute)]
    return any(name in added for call in others for name in _names(call.args))


def _has_optimizers(cls: Class, attribute: str) -> bool:
    """Whether a class makes optimizers of their own for what is in a list."""
    return any(
        isinstance(node, ast.Call)
        and _OPTIMIZER.search(ast.unparse(node.func))
        and re.search(rf"\bself\.{attribute}\b.*\.parameters\(", "".join(map(ast.unparse, _given(node))))
        for node in ast.walk(cls.node)
    )


def _is_of(node: ast.expr, attribute: str) -> bool:
    """``self.layers[key]`` or ``self.layers.append``."""
    held = node.value if isinstance(node, ast.Subscript | ast.Attribute) else None
    return isinstance(held, ast.Attribute) and held.attr == attribute


def _names(nodes: list[ast.expr]) -> list[str]:
    return [node.id for node in nodes if isinstance(node, ast.Name)]


def _given(call: ast.Call) -> list[ast.expr]:
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def _users(owner: Instance, attribute: str) -> set[str]:
    """The methods, other than the constructor, that read an attribute."""
    return {name for cls in _classes(owner) for name, _ in _uses(cls, attribute)}


def _uses(cls: Class, attribute: str) -> Iterator[tuple[str, Site]]:
    """Where methods of a class, other than the constructor, read an attribute."""
    for method in cls.node.body:
        if isinstance(method, ast.FunctionDef) and method.name != "__init__":
            for node in ast.walk(method):
                if isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Load):
                    yield method.name, Site(cls.module, node)


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
            pending.extend(inner for source in ctx.sources(value) for inner in _contents(source))
        elif isinstance(value, Instance):
            held = [option for kept in value.attributes.values() for _, option in alternatives(kept)]
            pending.extend(option for option in held if not isinstance(option, Items | Table))
            pending.extend(_contents(value.attributes["<items>"]) if "<items>" in value.attributes else ())
            if value is not owner:  # a module that is given others keeps them, nearly always
                pending.extend(inner for argument in value.arguments.all() for inner in _contents(argument))
    return found


def _is_passed_on(value: Value, layers: list[Value], ctx: Context) -> bool:
    """Whether a constructor gives the list, or what is in it, to something that may register it."""
    wanted = {id(value), *(id(layer) for layer in layers)}
    return any(
        isinstance(event, OpaqueCall)
        and _is_in_constructor(event)
        and any(id(inner) in wanted for given in event.values for inner in (given, *_contents(given)))
        for event in ctx.events
    )


def _fixes(event: AttributeAssigned, ctx: Context) -> list[Fix]:
    value = event.value
    node = value.site.node if value.site is not None else None
    module = event.site.module
    prefix = _name_of_nn(module.tree)
    if not prefix or not all(isinstance(item, Instance) for item in _direct(value)):
        return []
    if any(isinstance(item, Instance) and item.library_name == "torch.nn.Parameter" for item in _direct(value)):
        return []
    if isinstance(node, ast.List | ast.ListComp) and node.lineno >= event.site.line:
        container = "ModuleList"
    elif isinstance(node, ast.Dict) and all(_is_key(key) for key in node.keys):
        container = "ModuleDict"
    else:
        return []
    place = Site(event.site.module, node)
    edits = replace_range(place, f"{prefix}.{container}({ctx.source_of(place)})")
    assert value.site is not None
    return offer(f"Put them into `{container}`", edits, "unsafe", of=value.site, at=event.site)


def _is_key(node: ast.expr | None) -> bool:
    """Whether a key of a dict can be one of a ``ModuleDict``."""
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and "." not in node.value


def _direct(value: Value) -> tuple[Value, ...]:
    if isinstance(value, Table):
        return tuple(value.contents.values())
    return value.items if isinstance(value, Items) else ()


def _name_of_nn(tree: ast.Module) -> str:
    """What a file calls ``torch.nn``."""
    names = {"torch.nn": "", "torch": ""}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update((alias.name, alias.asname or alias.name) for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module == "torch":
            names.update(("torch.nn", alias.asname or "nn") for alias in node.names if alias.name == "nn")
    return names["torch.nn"] or (f"{names['torch']}.nn" if names["torch"] else "")
