"""Binding of values to the targets of assignments."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from dllint.choices import Choice, alternatives, choose, give_hint
from dllint.events import AttributeAssigned, ModeChange, ParametersUpdated, UnpackingRefused, ZeroGrad
from dllint.interp.run import containers, graph
from dllint.interp.run.attributes import set_attribute
from dllint.interp.run.builtin_calls import MAPPED
from dllint.interp.run.classes import role_of
from dllint.interp.run.guards import text_of
from dllint.interp.run.joining import CallError
from dllint.interp.run.samples import parts_of_call, parts_of_sample
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import enclosing_definition
from dllint.sites import Site
from dllint.values import Arguments, Const, Items, Nothing, Scope, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine


_HANDING_ON = frozenset(("staticmethod", "classmethod", "property", "no_grad", "enable_grad", "inference_mode"))


def assign(machine: Machine, target: ast.expr, value: Value, scope: Scope) -> None:
    """Bind a value to an assignment target."""
    if isinstance(target, ast.Name):
        _assign_name(machine, target.id, value, scope)
    elif isinstance(target, ast.Attribute):
        base = machine.evaluate(target.value, scope)
        _assign_attribute(machine, base, target, value, scope)
    elif isinstance(target, ast.Subscript):
        base = machine.evaluate(target.value, scope)
        if isinstance(target.slice, ast.Slice):
            _assign_slice(machine, base, target, value, scope)
        else:
            index = machine.evaluate(target.slice, scope)
            containers.set_item(machine, base, index, text_of(target.slice), value)
    elif isinstance(target, ast.Tuple | ast.List):
        _unpack(machine, target, value, scope)
    elif isinstance(target, ast.Starred):
        assign(machine, target.value, Items("list", (), value.site, exact=False), scope)


def _assign_slice(machine: Machine, base: Value, target: ast.Subscript, value: Value, scope: Scope) -> None:
    """``base[:] = value``: a list gets the items of the value, and which of its own it keeps is not worked out."""
    for _, option in alternatives(base):
        if isinstance(option, Items):
            containers.call_method(machine, option, "extend", Arguments((value,)), Site(scope.module, target))
            machine.write(option.contents, "exact", False)
        else:
            containers.set_item(machine, option, Const(None), text_of(target.slice), value)


def _assign_name(machine: Machine, name: str, value: Value, scope: Scope) -> None:
    give_hint(value, name)
    if name in scope.global_names:
        machine.write(machine.module_scope(scope.module).variables, name, value)
        return
    if name in scope.nonlocal_names:
        outer = scope.parent
        while outer is not None and name not in outer.variables:
            outer = outer.parent
        if outer is not None:
            machine.write(outer.variables, name, value)
            return
    machine.write(scope.variables, name, value)


def _assign_attribute(machine: Machine, base: Value, target: ast.Attribute, value: Value, scope: Scope) -> None:
    set_attribute(machine, base, target.attr, value)
    site = Site(scope.module, target)
    if target.attr == "grad" and isinstance(value, Const) and value.value is None:
        machine.emit(ZeroGrad(site, base, True))
    elif target.attr == "training" and role_of(machine, base) == "module":  # as a `train` of a module's own does
        mode = value.value if isinstance(value, Const) else None
        machine.emit(ModeChange(site, base, mode if isinstance(mode, bool) else None))
    elif target.attr == "data" and graph.mentions_attribute(value, "grad"):
        machine.emit(ParametersUpdated(site, base))
    machine.emit(AttributeAssigned(site, base, target.attr, value))


def _unpack(machine: Machine, target: ast.Tuple | ast.List, value: Value, scope: Scope) -> None:
    site = Site(scope.module, target)
    starred = next((i for i, element in enumerate(target.elts) if isinstance(element, ast.Starred)), None)
    if starred is None:
        value = _mapped(machine, value, len(target.elts), site)
        parts = _other_parts(machine, value, len(target.elts)) if machine.block is not None else set()
        if parts or (isinstance(value, Nothing) and machine.block is not None):
            machine.emit(UnpackingRefused(site, value, len(target.elts), tuple(sorted(parts))))
            raise CallError(site)
        value = _of_so_many(machine, value, len(target.elts))
        for element, part in zip(target.elts, containers.unpack(machine, value, len(target.elts), site), strict=True):
            assign(machine, element, part, scope)
        return
    for index, element in enumerate(target.elts):
        position = index if index < starred else index - len(target.elts)
        if index != starred:
            assign(machine, element, containers.get_item(machine, value, Const(position), str(position), site), scope)
        else:
            end = len(target.elts) - starred - 1
            rest: list[Value] = [Const(starred), Const(-end if end else None), Const(None)]
            assign(machine, element, containers.get_slice(machine, value, rest, site), scope)


def _mapped(machine: Machine, value: Value, count: int, site: Site) -> Value:
    """What ``x, y = map(f, batch)`` takes apart: ``f`` of each part of the batch."""
    if not isinstance(value, Symbol) or value.name != "map" or len(value.inputs) != 2:
        return value
    function, given = value.inputs
    if not isinstance(function, MAPPED):
        return value
    parts = containers.unpack(machine, given, count, site)
    return Items("list", [machine.call(function, Arguments((part,)), site) for part in parts], value.site)


def _other_parts(machine: Machine, value: Value, count: int) -> set[int]:
    """The numbers of parts that a value has, or each that it may be, if they certainly differ from some number."""
    known = [_parts(machine, option) for _, option in alternatives(value)]
    return set().union(*known) if all(parts and count not in parts for parts in known) else set()


def _of_so_many(machine: Machine, value: Value, count: int) -> Value:
    """A value without the tuples of another length that it may be: with these nobody gets any further."""
    options = value.options if isinstance(value, Choice) else ()
    kept = [each for each in options if not isinstance(each[1], Items) or _parts(machine, each[1]) in (set(), {count})]
    return choose(kept) if 0 < len(kept) < len(options) else value


def _parts(machine: Machine, value: Value) -> set[int]:
    """The numbers of parts that a tuple has which is written out, a sample, or what a call gave."""
    if isinstance(value, Symbol):
        return parts_of_sample(machine, value) or parts_of_call(machine, value)
    if not isinstance(value, Items) or value.kind != "tuple" or not value.exact:
        return set()
    made = value.site
    if made is None or not isinstance(made.node, ast.Tuple) or _is_handed_on(made) or _follows_mode(made):
        return set()
    return set() if containers.is_conditional(value) else {len(value.items)}


def _follows_mode(made: Site) -> bool:
    """Whether a tuple is of a function that asks for the mode: of its ways, only that of training is known."""
    around = enclosing_definition(made)
    return around is not None and any(each.attr == "training" for each in nodes_of(around).of(ast.Attribute))


def _is_handed_on(made: Site) -> bool:
    """Whether a tuple is of a function with a decorator, which may make something else of what it returns."""
    around = enclosing_definition(made)
    decorators = getattr(around, "decorator_list", ())
    return any(text_of(each).rpartition(".")[2].partition("(")[0] not in _HANDING_ON for each in decorators)
