"""Loops over a few known things: the items of a list, the outputs of a model, the places of a list."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING

from dllint.interp.run import containers, names
from dllint.interp.run.modules import force
from dllint.sites import Site
from dllint.values import Const, Instance, Items, Scope, Symbol, Table, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_MAX_UNROLLED = 6
MAX_OUTPUTS = 8
_VIEWS = ("items", "keys", "values")


def few_things(machine: Machine, node: ast.For | ast.AsyncFor, iterable: Value, scope: Scope) -> Items | None:
    """What a loop goes over, if these are a few known things that it makes a difference to tell apart."""
    iterable = listed(machine, iterable, Site(scope.module, node.iter))
    if isinstance(iterable, Items):
        return iterable if _is_short(iterable) and not _is_of_numbers(iterable) else None
    places = numbers_of(iterable)
    if places is None or not _is_short(places) or not _indexes_things(machine, node, scope):
        return None
    return places


def is_over_nothing(machine: Machine, node: ast.For | ast.AsyncFor, scope: Scope) -> bool:
    """Whether a loop goes over the ``**options`` or the ``*args`` of a function that was given none of them."""
    base, function = node.iter, scope.function
    if isinstance(base, ast.Call) and isinstance(base.func, ast.Attribute) and base.func.attr in _VIEWS:
        base = base.func.value
    if not isinstance(base, ast.Name) or function is None or scope.variables.get(base.id) is None:
        return False
    rest = (function.node.args.vararg, function.node.args.kwarg)
    if not any(each is not None and each.arg == base.id for each in rest) or _is_filled(base.id, function.node):
        return False
    given = scope.variables[base.id]
    if isinstance(given, Table):
        return given.exact and not given.contents
    return isinstance(given, Items) and given.exact and not given.items


@lru_cache(maxsize=4096)
def _is_filled(name: str, function: ast.AST) -> bool:
    """Whether a function does more with a dict or tuple than to read it: it may have entries in a second round."""
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load):
            return True
        is_mine = isinstance(node, ast.Subscript | ast.Attribute) and getattr(node.value, "id", "") == name
        if is_mine and isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            return True
        if is_mine and isinstance(node, ast.Attribute) and node.attr in ("update", "setdefault"):
            return True
    return False


def listed(machine: Machine, value: Value, site: Site) -> Value:
    """A call of a model that returns a tuple or list, as its items; another value is itself."""
    if not isinstance(value, Symbol) or value.name != "forward":
        return value
    returned = force(machine, value)
    if not isinstance(returned, Items) or not returned.exact or containers.is_conditional(returned):
        return value
    if len(returned.items) > MAX_OUTPUTS:
        return value
    outputs = [containers.get_item(machine, value, Const(i), str(i), site) for i in range(len(returned.items))]
    return Items(returned.kind, outputs, site)


def numbers_of(value: Value, limit: int = _MAX_UNROLLED + 1) -> Items | None:
    """The numbers of a ``range`` whose bounds are known, the first ``limit`` of them at most."""
    if not isinstance(value, Symbol) or value.name != "range" or not 1 <= len(value.inputs) <= 3:
        return None
    bounds = [bound.value for bound in value.inputs if isinstance(bound, Const) and isinstance(bound.value, int)]
    if len(bounds) < len(value.inputs) or bounds[2:] == [0]:
        return None
    return Items("list", [Const(number, value.site) for number in range(*bounds)[:limit]], value.site)


def _is_short(items: Items) -> bool:
    return items.exact and 0 < len(items.items) <= _MAX_UNROLLED


def _is_of_numbers(items: Items) -> bool:
    return all(isinstance(item, Const) and not isinstance(item.value, str) for item in items.items)


def _indexes_things(machine: Machine, node: ast.For | ast.AsyncFor, scope: Scope) -> bool:
    """Whether a loop over numbers takes things other than numbers from a known list, one after another."""
    for base in _indexed_by(node):
        if isinstance(base, ast.Name):
            found = names.lookup(machine, base.id, scope)
        else:
            assert isinstance(base.value, ast.Name)
            owner = names.lookup(machine, base.value.id, scope)
            known = owner.attributes.get(base.attr) if isinstance(owner, Instance) else None
            if known is None:
                continue
            found = known
        if isinstance(found, Instance) and found.library_name == "torch.nn.ModuleList":
            found = found.arguments.get(0, "modules") or found
        found = listed(machine, found, Site(scope.module, base))
        if isinstance(found, Items) and _is_short(found) and not _is_of_numbers(found):
            return True
    return False


@lru_cache(maxsize=4096)
def _indexed_by(node: ast.For | ast.AsyncFor) -> tuple[ast.Name | ast.Attribute, ...]:
    """The variables, and attributes of variables, that a loop indexes by what it counts, as in ``outputs[i]``."""
    if not isinstance(node.target, ast.Name):
        return ()
    found: list[ast.Name | ast.Attribute] = []
    for child in (child for statement in node.body for child in ast.walk(statement)):
        if isinstance(child, ast.Subscript) and isinstance(child.slice, ast.Name) and child.slice.id == node.target.id:
            base = child.value
            if isinstance(base, ast.Name) or (isinstance(base, ast.Attribute) and isinstance(base.value, ast.Name)):
                found.append(base)
    return tuple(found)
