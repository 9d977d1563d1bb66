"""Layers that a class certainly builds, as its code names them: where the interpreter could not follow what is made."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING

from dllint.interp.ask.dropout import drops_nothing, is_written_as_zero, place_of_rate
from dllint.interp.run.names import lookup, module_attribute
from dllint.interp.source.known_settings import default_of
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import ancestors
from dllint.sites import Site
from dllint.values import Class, External, Function, Instance, ModuleReference, Scope, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_MOST = 60  # definitions
_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
_CONDITIONAL = ast.If | ast.IfExp | ast.BoolOp | ast.Try | ast.Lambda


def builds_sensitive_layer(machine: Machine, value: Instance, cls: Class) -> bool:
    """Whether a class, or one that it makes objects of, makes a layer that depends on the mode, in any case.

    A layer that `forward` makes is a new one each time, which nobody has put into evaluation mode.
    """
    pending: list[Class | Function] = [*cls.lineage]
    seen: set[int] = set()
    drops = not drops_nothing(value, cls)
    for definition in pending:  # which grows meanwhile
        if id(definition.node) in seen or len(seen) >= _MOST:
            continue
        seen.add(id(definition.node))
        for call, function in _calls_of(definition):
            made = _called(machine, call.func, definition.scope)
            if isinstance(made, External) and _is_sensitive(machine, made.name, call, function, drops=drops):
                return True
            if isinstance(made, Class | Function):
                pending.extend(made.lineage if isinstance(made, Class) else [made])
    return False


def _calls_of(definition: Class | Function) -> Iterator[tuple[ast.Call, ast.AST | None]]:
    """The calls in a definition that are made in any case, each with the function that it stands in.

    A default of a parameter is not: who gives another value has nothing of it, and else it is what the parameter is.
    """
    for call in nodes_of(definition.node).of(ast.Call):
        around = list(takewhile(lambda each: each is not definition.node, ancestors(Site(definition.module, call))))
        functions = [each for each in (*around, definition.node) if isinstance(each, _FUNCTION)]
        is_default = any(isinstance(each, ast.arguments) for each in around)
        if not is_default and not any(
            isinstance(each, _CONDITIONAL) or getattr(each, "name", "") == "forward" for each in around
        ):
            yield call, functions[0] if functions else None


def _called(machine: Machine, called: ast.expr, scope: Scope) -> Value | None:
    """What a name stands for, or an attribute of a module, where it is a function or a class."""
    if isinstance(called, ast.Name):
        return lookup(machine, called.id, scope)
    if not isinstance(called, ast.Attribute):
        return None
    owner = _called(machine, called.value, scope)
    if isinstance(owner, External):
        return External(machine.facts.canonical(f"{owner.name}.{called.attr}"))
    return module_attribute(machine, owner.module, called.attr) if isinstance(owner, ModuleReference) else None


def _is_sensitive(machine: Machine, name: str, call: ast.Call, function: ast.AST | None, *, drops: bool) -> bool:
    """Whether a call makes a layer that depends on the mode: one that drops something, or keeps statistics."""
    facts = machine.facts
    if name not in facts.mode_sensitive:
        return name.startswith(facts.mode_sensitive_prefixes)
    given = {each.arg: each.value for each in call.keywords}
    if "BatchNorm" in name:
        kept = given.get("track_running_stats")
        return kept is None or (isinstance(kept, ast.Constant) and bool(kept.value))
    place, keyword = place_of_rate(name)
    is_placed = place is not None and place < len(call.args)
    rate = call.args[place] if is_placed and place is not None else given.get(keyword)
    if isinstance(rate, ast.Name) and isinstance(function, _FUNCTION):
        rate = default_of(function.args, rate.id) or rate
    return drops and (rate is None or not is_written_as_zero(rate))
