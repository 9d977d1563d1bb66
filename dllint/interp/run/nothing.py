"""Tests for ``None`` of what is certainly a tensor."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from dllint.choices import Choice
from dllint.interp.source.bindings import assigned_in
from dllint.interp.source.positions import ancestors
from dllint.interp.source.tensor_names import MAKES_TENSOR
from dllint.sites import Site
from dllint.values import Scope, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_MAX_STEPS = 12  # of methods called one upon another


def is_asked_of_tensor(machine: Machine, node: ast.Compare, left: Value, scope: Scope) -> bool:
    """Whether ``labels is None`` asks that of a tensor, where no round of a loop binds the variable anew."""
    right = node.comparators[0]
    is_test = isinstance(node.ops[0], ast.Is | ast.IsNot) and isinstance(right, ast.Constant) and right.value is None
    if not is_test or not isinstance(node.left, ast.Name) or not _is_tensor(machine, left):
        return False
    name = node.left.id
    loops = (
        each for each in ancestors(Site(scope.module, node)) if isinstance(each, ast.For | ast.AsyncFor | ast.While)
    )
    return name in scope.variables and not any(name in assigned_in(loop) for loop in loops)


def _is_tensor(machine: Machine, value: Value) -> bool:
    """Whether a value is certainly a tensor: made as one, and at most changed in its shape, type or place."""
    if isinstance(value, Choice):
        return all(_is_tensor(machine, option) for _, option in value.options)
    for _ in range(_MAX_STEPS):
        if not isinstance(value, Symbol):
            return False
        if MAKES_TENSOR.fullmatch(value.name):
            return True
        if not value.inputs or value.name[:1] != "." or value.name[1:] not in machine.facts.shape_only_methods:
            return False
        value = value.inputs[0]
        if isinstance(value, Choice):
            return _is_tensor(machine, value)
    return False
