"""Attribute access on abstract values."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from dllint.choices import Choice, choose, give_hint
from dllint.interp.run import names
from dllint.interp.run.classes import find_member, is_module_class
from dllint.sites import Site
from dllint.values import (
    BoundMethod,
    Class,
    Const,
    External,
    Function,
    Instance,
    Items,
    ModuleReference,
    Setting,
    Symbol,
    Table,
    Value,
)

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_COMPILED = "_orig_mod."  # the prefix of what `torch.compile` holds
_TABLES = ("pandas.", "geopandas.", "polars.", "numpy.", "xarray.")  # which make their own of a list
_NAMES = ("__name__", "__qualname__")


def get_attribute(machine: Machine, base: Value, name: str, site: Site) -> Value:
    """The value of ``base.name``."""
    if name in _NAMES and isinstance(base, Class | Function | External):
        called = _name_of(machine, base) if name == "__name__" or _is_outermost(base) else ""
        if called:
            return Const(called, site)
    if isinstance(base, External):
        return External(machine.facts.canonical(f"{base.name}.{name}"), site)
    if isinstance(base, Instance):
        return names.under_path(machine, _of_instance(machine, base, name, site))
    if isinstance(base, Symbol):
        known = base.attribute(name)
        if known is not None:
            return names.under_path(machine, known)
        if name == "requires_grad" and base.grad == "off":
            return Const(False, site)
        return _materialise(machine, base, name, site)
    if isinstance(base, ModuleReference):
        return _of_module(machine, base, name)
    if isinstance(base, Choice):
        base = names.under_path(machine, base)
        if isinstance(base, Choice):
            usable = [o for o in base.options if not (isinstance(o[1], Const) and o[1].value is None)]
            return choose(
                [(guards, get_attribute(machine, option, name, site)) for guards, option in usable or base.options]
            )
        return get_attribute(machine, base, name, site)
    if isinstance(base, Setting):
        return _of_setting(machine, base, name, site)
    if isinstance(base, Class):
        member = find_member(machine, base, name)
        if isinstance(member, Function) and member.kind == "class":
            return BoundMethod(base, member)
        return member if member is not None else Symbol("attribute", (base,), site, detail=name)
    return Symbol("attribute", (base,), site, detail=name, grad=machine.grad)


def _name_of(machine: Machine, definition: Class | Function | External) -> str:
    """What ``__name__`` is: the last part of a dotted name; empty where the library may have another name inside."""
    if isinstance(definition, Class):
        return "" if definition.node.decorator_list or definition.node.keywords else definition.name
    if isinstance(definition, Function):
        return "" if isinstance(definition.node, ast.Lambda) or definition.node.decorator_list else definition.name
    last = definition.name.rpartition(".")[2]
    return last if machine.facts.role(definition.name) and last[:1].isupper() else ""


def _is_outermost(definition: Class | Function | External) -> bool:
    """Whether ``__qualname__`` is ``__name__``: nothing is around the definition."""
    return isinstance(definition, External) or definition.node in definition.module.tree.body


def _materialise(machine: Machine, base: Instance | Symbol, name: str, site: Site) -> Symbol:
    """An unknown attribute becomes a symbol that is the same on every read, in all arms of a branch."""
    symbol = Symbol("attribute", (base,), site, detail=name, grad=machine.grad)
    symbol.hint = name
    base.attributes[name] = symbol
    return symbol


def _of_module(machine: Machine, base: ModuleReference, name: str) -> Value:
    copied = names.of_copied_library(machine, base.module, name)
    if copied is not None:
        return copied
    value = names.module_attribute(machine, base.module, name)
    if value is not None:
        return value
    submodule = machine.project.find_submodule(base.module, name)
    return ModuleReference(submodule) if submodule is not None else Symbol("unknown", detail=name)


def _of_setting(machine: Machine, base: Setting, name: str, site: Site) -> Value:
    inner = get_attribute(machine, base.default, name, site)
    return inner if isinstance(inner, Setting | Symbol) else Setting(f"{base.name}.{name}", inner, site)


def attributes_of(base: Instance, site: Site) -> Table:
    """``vars(x)``: a dict whose entries are the attributes of an object, and set them."""
    table = Table(dict(base.attributes), site, exact=False)
    table.holder = base
    return table


def _of_instance(machine: Machine, base: Instance, name: str, site: Site) -> Value:
    known = base.attributes.get(name)
    if known is not None:
        return known
    if name == "__dict__":
        return attributes_of(base, site)
    if name == "__class__":
        return class_of(base)
    if isinstance(base.cls, Class):
        return _of_project_instance(machine, base, base.cls, name, site)
    if machine.facts.role(base.cls) == "wrapper" and base.arguments.positional:
        inside, held_as = base.arguments.positional[0], machine.facts.wrapper_prefixes.get(base.cls, "module.")
        if f"{name}." == held_as:
            return inside
        if held_as == _COMPILED:  # which hands on what it does not have
            return get_attribute(machine, inside, name, site)
    signature = machine.facts.signatures.get(base.cls, ())
    normalised = base.cls.startswith("torch.distributions.")  # its logits are not the ones it was given
    if (name in signature or name in base.arguments.keywords) and not normalised:
        given = base.arguments.get(signature.index(name) if name in signature else None, name)
        if given is not None and not (isinstance(given, Items) and base.cls.startswith(_TABLES)):
            return given
    return _materialise(machine, base, name, site)


def class_of(base: Instance) -> Class | External:
    """The class that an object was made from: ``x.__class__``, ``type(x)``."""
    return base.cls if isinstance(base.cls, Class) else External(base.cls)


def _of_project_instance(machine: Machine, base: Instance, cls: Class, name: str, site: Site) -> Value:
    member = find_member(machine, cls, name)
    if isinstance(member, Function):
        if member.kind == "property":
            from dllint.values import Arguments

            return machine.invoke(member, Arguments(), site, receiver=base)
        if member.kind == "static":
            return member
        return BoundMethod(cls if member.kind == "class" else base, member)
    if member is not None:
        return member
    if name == "training" and is_module_class(machine, cls) and _is_of_itself(site.node):
        return Symbol("training-mode", (base,), site)
    return _materialise(machine, base, name, site)


def _is_of_itself(node: ast.AST) -> bool:
    """Whether a module reads an attribute of its own; others ask for its mode because it may be either."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def set_attribute(machine: Machine, base: Value, name: str, value: Value) -> None:
    """Assign ``base.name = value`` where the base has attributes of its own."""
    if isinstance(base, Instance | Symbol):
        machine.write(base.attributes, name, value)
        give_hint(value, name)
    elif isinstance(base, Choice):
        for guards, option in base.options:
            if isinstance(option, Instance | Symbol):
                before = option.attributes.get(name)
                joined = value if before is None else choose([(guards, value), ((), before)])
                machine.write(option.attributes, name, joined)
    elif isinstance(base, ModuleReference):
        machine.write(machine.module_scope(base.module).variables, name, value)
    elif isinstance(base, Setting) and isinstance(base.default, Table):
        machine.write(base.default.contents, name, value)
