"""Values of which it is known only that there is one: an array, a list, what a function returns in any case."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from dllint.interp.source.imported import dotted_name, imported_names
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import ancestors
from dllint.sites import Site

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule

_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
_INNER = (*_FUNCTION.__args__, ast.Lambda, ast.ClassDef)
_WRITTEN = ast.List | ast.Tuple | ast.Dict | ast.Set | ast.JoinedStr | ast.ListComp | ast.SetComp | ast.DictComp
_BUILTINS = frozenset(
    ("bool", "dict", "enumerate", "float", "int", "len", "list", "open", "range", "reversed", "set", "sorted", "str",
     "tuple", "zip")
)  # fmt: skip
_MAKERS = frozenset(
    ("arange", "array", "asarray", "concatenate", "empty", "eye", "full", "hstack", "linspace", "ones", "ones_like",
     "rand", "randn", "stack", "tensor", "vstack", "zeros", "zeros_like")
)  # fmt: skip
_ARRAYS = ("numpy", "torch")
_MAX_DEPTH = 3


class Something:
    """A value that is not `None`, and of which nothing else is known: whoever asks more of it gets an error."""

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise TypeError

    def __eq__(self, other: object) -> bool:
        raise TypeError


def is_something(module: SourceModule, node: ast.expr, depth: int = 0) -> bool:
    """Whether an expression certainly has a value other than `None`, by what is written in its file."""
    if isinstance(node, _WRITTEN) or (isinstance(node, ast.Constant) and node.value is not None):
        return True
    if depth > _MAX_DEPTH:
        return False
    if isinstance(node, ast.Call):
        return _is_made(module, node) or _all_returned(module, node, None, depth)
    if not isinstance(node, ast.Name):
        return False
    around = next((each for each in ancestors(Site(module, node)) if isinstance(each, _FUNCTION)), None)
    if around is None or node.id in {each.arg for each in nodes_of(around).of(ast.arg)}:
        return False
    stores = [each for each in nodes_of(around).of(ast.Name) if each.id == node.id and isinstance(each.ctx, ast.Store)]
    assigned = [each for each in nodes_of(around).of(ast.Assign) if _target_for(each, node.id) is not None]
    return 0 < len(stores) == len(assigned) and all(_is_given(module, each, node.id, depth) for each in assigned)


def _target_for(statement: ast.Assign, name: str) -> int | None:
    """The place of a name in what an assignment unpacks; -1 where the name is all of its target."""
    target = statement.targets[0]
    if len(statement.targets) > 1:
        return None
    if isinstance(target, ast.Name):
        return -1 if target.id == name else None
    parts = target.elts if isinstance(target, ast.Tuple) else []
    if any(isinstance(each, ast.Starred) for each in parts):
        return None
    return next((i for i, each in enumerate(parts) if isinstance(each, ast.Name) and each.id == name), None)


def _is_given(module: SourceModule, statement: ast.Assign, name: str, depth: int) -> bool:
    place, value = _target_for(statement, name), statement.value
    if place is None or place < 0:
        return place is not None and is_something(module, value, depth + 1)
    if isinstance(value, ast.Tuple):
        return place < len(value.elts) and is_something(module, value.elts[place], depth + 1)
    return isinstance(value, ast.Call) and _all_returned(module, value, place, depth)


def _is_made(module: SourceModule, call: ast.Call) -> bool:
    """Whether a call makes an array, a tensor, or a value of a type that Python has."""
    if isinstance(call.func, ast.Name) and call.func.id in _BUILTINS:
        return not module.binds(call.func.id)
    library, _, name = dotted_name(call, imported_names(module.tree)).partition(".")
    return library in _ARRAYS and name in _MAKERS


def _all_returned(module: SourceModule, call: ast.Call, place: int | None, depth: int) -> bool:
    """Whether a function of the file returns something in any case; with a place, something there of a tuple."""
    bound = module.bindings.names.get(call.func.id, []) if isinstance(call.func, ast.Name) else []
    function = bound[0] if len(bound) == 1 else None
    if not isinstance(function, ast.FunctionDef) or function.decorator_list or function not in module.tree.body:
        return False
    if not isinstance(function.body[-1], ast.Return) or nodes_of(function).of(ast.Yield, ast.YieldFrom):
        return False
    if any(isinstance(each, _INNER) for each in nodes_of(function).all if each is not function):
        return False
    for statement in nodes_of(function).of(ast.Return):
        value = statement.value
        if place is not None:
            value = value.elts[place] if isinstance(value, ast.Tuple) and place < len(value.elts) else None
        if value is None or not is_something(module, value, depth + 1):
            return False
    return True
