"""What a module passes a mode on to: modules that are attributes of it, and not those in a plain list or dict."""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import TYPE_CHECKING

from dllint.choices import alternatives
from dllint.interp.run.classes import derives_from_module
from dllint.interp.run.graph import held_by, unwrapped
from dllint.interp.source.nodes import nodes_of
from dllint.values import Class, Const, External, Instance, Items, Symbol, Table, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_BASES = frozenset(("torch.nn.Module", "lightning.pytorch.LightningModule", "pytorch_lightning.LightningModule"))
_OWN_WAYS = frozenset(("train", "eval", "modules", "children", "named_modules", "named_children", "__setattr__"))
_REGISTERING = frozenset(
    ("add_module", "register_module", "setattr", "_modules", "__dict__", "vars", "__setattr__", "exec")
)
_NUMBERS = ("len", "range")
_MAX_DEPTH = 5
_MAX_VALUES = 400


def is_hidden_in(machine: Machine, module: Value, part: Value) -> bool:
    """Whether a module of the project certainly passes no mode on to what it leads to: it keeps it in a plain list.

    That is said where all ways from the module to the part lead through such a list, or a dict.
    """
    wanted, seen = unwrapped(machine, part), set[int]()
    pending: list[tuple[Value, int]] = [(unwrapped(machine, module), 0)]
    is_any_hidden = False
    for value, depth in pending:  # which grows meanwhile
        if value is wanted:
            return False
        if id(value) in seen or isinstance(value, Const | External):
            continue
        seen.add(id(value))
        if depth > _MAX_DEPTH or len(seen) > _MAX_VALUES:
            return False
        inner, hidden = _passed_on(machine, value)
        is_any_hidden = is_any_hidden or hidden
        pending.extend((unwrapped(machine, each), depth + 1) for each in inner)
    return is_any_hidden


def _passed_on(machine: Machine, value: Value) -> tuple[list[Value], bool]:
    """What an object passes a mode on to, or may do, and whether it keeps anything from it."""
    if isinstance(value, Symbol) and value.name in _NUMBERS:
        return [], False
    held = list(held_by(value))
    if not isinstance(value, Instance) or not _registers_attributes_alone(machine, value):
        return held, False
    plain = [each for each in held if _is_plain(each)]
    return [each for each in held if not any(each is other for other in plain)], bool(plain)


def _is_plain(value: Value) -> bool:
    """Whether a value is a list or a dict of Python's, whichever of several it is."""
    return all(isinstance(each, Items | Table) for _, each in alternatives(value))


def _registers_attributes_alone(machine: Machine, owner: Instance) -> bool:
    """Whether a module is of a class that leaves it to torch which of its parts are registered."""
    if not isinstance(owner.cls, Class) or not derives_from_module(machine, owner.cls):
        return False
    return _BASES.issuperset(owner.cls.library_bases) and not any(
        _has_own_ways(each.node) for each in owner.cls.lineage
    )


@lru_cache(maxsize=1024)
def _has_own_ways(node: ast.ClassDef) -> bool:
    """Whether a class registers modules, or passes a mode on, by itself."""
    nodes = nodes_of(node)
    methods = {each.name for each in nodes.of(ast.FunctionDef)}
    return bool(methods & _OWN_WAYS or nodes.names.keys() & _REGISTERING or nodes.attributes.keys() & _REGISTERING)
