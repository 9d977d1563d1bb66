"""How many parts a sample of a dataset has, or what a call gives, by the tuples that functions return."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from dllint.interp.run.classes import find_member
from dllint.interp.run.opaque import NOT_ENTERED
from dllint.interp.run.refusals import is_replaced
from dllint.interp.source.nodes import nodes_of
from dllint.values import Class, Const, Function, Instance, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_LOADER = "torch.utils.data.DataLoader"
_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_HOOKS = re.compile(r"\bregister_(full_)?forward_hook\b")  # which may give something else
_COLLATE = 6  # the position of `collate_fn`


def parts_of_sample(machine: Machine, value: Value) -> set[int]:
    """The numbers of parts that a sample, or a batch of samples, may have; none where it may be anything."""
    if not isinstance(value, Symbol) or value.name not in ("item", "element") or not value.inputs:
        return set()
    source: Value | None = value.inputs[0]
    if value.name == "element":
        source = _dataset_of(source)
    if not isinstance(source, Instance) or not isinstance(source.cls, Class):
        return set()
    method = find_member(machine, source.cls, "__getitem__")
    return _parts_returned(method) if isinstance(method, Function) else set()


def parts_of_call(machine: Machine, value: Value) -> set[int]:
    """The numbers of parts that what a call gave may have: of a model of the project, or of a function of it."""
    if not isinstance(value, Symbol) or not value.inputs:
        return set()
    called: Value | None = value.inputs[0]
    if value.name == "forward" and isinstance(called, Instance) and isinstance(called.cls, Class):
        if find_member(machine, called.cls, "__call__") is not None or called.cls.module.contains(_HOOKS):
            return set()
        called = find_member(machine, called.cls, "forward")
    elif value.name != "call" or value.detail != NOT_ENTERED:
        return set()
    if not isinstance(called, Function) or is_replaced(machine, called):
        return set()
    return _parts_returned(called)


def _dataset_of(loader: Value | None) -> Value | None:
    """The dataset of a loader that puts the parts of its samples together as they come."""
    if not isinstance(loader, Instance) or loader.library_name != _LOADER or not loader.arguments.exact:
        return None
    collate = loader.arguments.get(_COLLATE, "collate_fn")
    if collate is not None and not (isinstance(collate, Const) and collate.value is None):
        return None
    return loader.arguments.get(0, "dataset")


def _parts_returned(method: Function) -> set[int]:
    """The sizes of the tuples that a method returns, if it returns nothing else."""
    nodes = nodes_of(method.node)
    is_plain = not getattr(method.node, "decorator_list", ()) and not nodes.of(ast.Yield, ast.YieldFrom)
    if not is_plain or any(isinstance(each, _INNER) for each in nodes.all if each is not method.node):
        return set()
    returned = [each.value for each in nodes.of(ast.Return)]
    tuples = [each for each in returned if isinstance(each, ast.Tuple)]
    if len(tuples) < len(returned) or any(isinstance(part, ast.Starred) for each in tuples for part in each.elts):
        return set()
    return {len(each.elts) for each in tuples}
