"""Binding of values to the targets of assignments."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from dllint.choices import alternatives, give_hint
from dllint.events import AttributeAssigned, ParametersUpdated, ZeroGrad
from dllint.interp.run import containers, graph
from dllint.interp.run.attributes import set_attribute
from dllint.interp.run.guards import text_of
from dllint.interp.run.joining import CallError
from dllint.interp.run.samples import parts_of_call, parts_of_sample
from dllint.sites import Site
from dllint.values import Const, Items, Scope, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine


def assign(machine: Machine, target: ast.expr, value: Value, scope: Scope) -> None:
    """Bind a value to an assignment target."""
    if isinstance(target, ast.Name):
        _assign_name(machine, target.id, value, scope)
    elif isinstance(target, ast.Attribute):
        base = machine.evaluate(target.value, scope)
        _assign_attribute(machine, base, target, value, scope)
    elif isinstance(target, ast.Subscript):
        base = machine.evaluate(target.value, scope)
        index = Const(None) if isinstance(target.slice, ast.Slice) else machine.evaluate(target.slice, scope)
        containers.set_item(machine, base, index, text_of(target.slice), value)
    elif isinstance(target, ast.Tuple | ast.List):
        _unpack(machine, target, value, scope)
    elif isinstance(target, ast.Starred):
        assign(machine, target.value, Items("list", (), value.site, exact=False), scope)


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
    elif target.attr == "data" and graph.mentions_attribute(value, "grad"):
        machine.emit(ParametersUpdated(site, base))
    machine.emit(AttributeAssigned(site, base, target.attr, value))


def _unpack(machine: Machine, target: ast.Tuple | ast.List, value: Value, scope: Scope) -> None:
    site = Site(scope.module, target)
    starred = next((i for i, element in enumerate(target.elts) if isinstance(element, ast.Starred)), None)
    if starred is None:
        if machine.block is not None and _cannot_be_unpacked(machine, value, len(target.elts)):
            raise CallError(site)
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


def _cannot_be_unpacked(machine: Machine, value: Value, count: int) -> bool:
    """Whether a value, or each that it may be, has certainly more or fewer parts than there are variables."""
    return all(_has_others(machine, option, count) for _, option in alternatives(value))


def _has_others(machine: Machine, value: Value, count: int) -> bool:
    """Whether a value is a tuple that is written out, a sample or what a call gave, with more or fewer parts."""
    if isinstance(value, Symbol):
        parts = parts_of_sample(machine, value) or parts_of_call(machine, value)
        return bool(parts) and count not in parts
    if not isinstance(value, Items) or value.kind != "tuple" or not value.exact or len(value.items) == count:
        return False
    is_written = value.site is not None and isinstance(value.site.node, ast.Tuple)
    return is_written and not containers.is_conditional(value)
