"""Comprehensions: unrolled over a few known things, else evaluated once for a typical element."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from dllint.interp.run import containers
from dllint.interp.run.unrolling import listed
from dllint.sites import Site
from dllint.values import Const, Instance, Items, Scope, Setting, Symbol, Table, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_MAX_UNROLLED = 8
Comprehension = ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp


def comprehend(machine: Machine, node: Comprehension, scope: Scope) -> Value:
    """The list, set or dict that a comprehension makes."""
    inner = Scope(scope.module, scope, scope.function)
    machine.made(inner.variables)
    site = Site(scope.module, node)
    first = node.generators[0]
    iterable = listed(machine, machine.evaluate(first.iter, scope), Site(scope.module, first.iter))
    if len(node.generators) == 1 and not first.ifs and _is_short(iterable):
        assert isinstance(iterable, Items)
        pairs = []
        for item in iterable.items:
            _assign(machine, first.target, item, inner)
            pairs.append(_element(machine, node, inner))
        return _collect(machine, node, pairs, site, exact=True)
    _assign(machine, first.target, containers.element_of(machine, iterable, site), inner)
    for index, generator in enumerate(node.generators):
        if index:
            more = machine.evaluate(generator.iter, inner)
            _assign(machine, generator.target, containers.element_of(machine, more, site), inner)
        for condition in generator.ifs:
            machine.evaluate(condition, inner)
    made = _element(machine, node, inner)
    pairs = [made, made] if _is_one_again(node, made[1], iterable) else [made]
    return _collect(machine, node, pairs, site, exact=False)


def _is_short(iterable: Value) -> bool:
    if not isinstance(iterable, Items) or not iterable.exact or containers.is_conditional(iterable):
        return False
    return len(iterable.items) <= _MAX_UNROLLED


def _is_one_again(node: Comprehension, made: Value, iterable: Value) -> bool:
    """Whether a list has one object, made in front of it, as often as a range says: ``[layer for _ in range(n)]``.

    That it is the same one again has to be seen, as in ``[layer] * n``.
    """
    first, *others = node.generators
    if isinstance(node, ast.DictComp | ast.SetComp) or others or first.ifs or not isinstance(made, Instance):
        return False
    targets = {each.id for each in ast.walk(first.target) if isinstance(each, ast.Name)}
    if not isinstance(node.elt, ast.Name) or node.elt.id in targets:
        return False
    times = iterable.inputs[-1] if isinstance(iterable, Symbol) and iterable.name == "range" else Const(1)
    default = times.default if isinstance(times, Setting) else times
    return not (isinstance(default, Const) and default.value in (0, 1))


def _assign(machine: Machine, target: ast.expr, value: Value, scope: Scope) -> None:
    from dllint.interp.run.assignment import assign

    assign(machine, target, value, scope)


def _element(machine: Machine, node: Comprehension, scope: Scope) -> tuple[Value, Value]:
    if isinstance(node, ast.DictComp):
        return machine.evaluate(node.key, scope), machine.evaluate(node.value, scope)
    return Const(None), machine.evaluate(node.elt, scope)


def _collect(
    machine: Machine, node: Comprehension, pairs: list[tuple[Value, Value]], site: Site, *, exact: bool
) -> Value:
    if not isinstance(node, ast.DictComp):
        kind = "set" if isinstance(node, ast.SetComp) else "list"
        return machine.fresh(Items(kind, [value for _, value in pairs], site, exact=exact))
    table = Table({}, site)
    for key, value in pairs:
        table.contents[key.value if isinstance(key, Const) and exact else Table.REST] = value
    return table
