"""Attributes that a constructor sets only under conditions none of which holds for the constants that it was given."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from dllint.interp.source.nodes import nodes_of
from dllint.values import Class, Const, Instance

_Constants = Mapping[str, object]


def stores_left_out(instance: Instance, name: str) -> frozenset[ast.AST]:
    """The assignments to ``self.name`` in the constructor of an object, if that certainly made none of them.

    Args:
        instance: an object of a class of the project, the arguments of which are all known.
        name: the attribute.
    """
    init = _constructor_of(instance)
    if init is None or not init.args.args:
        return frozenset()
    stores = [
        each
        for each in nodes_of(init).attributes.get(name, ())
        if isinstance(each.ctx, ast.Store)
        and isinstance(each.value, ast.Name)
        and each.value.id == init.args.args[0].arg
    ]
    given = _constants_of(init, instance) if stores else {}
    if not given:
        return frozenset()
    around = nodes_of(init).around
    return frozenset(stores) if all(_is_left_out(each, around, given) for each in stores) else frozenset()


def _constructor_of(instance: Instance) -> ast.FunctionDef | None:
    """The constructor that the very class of an object has, if it is a plain one."""
    body = instance.cls.node.body if isinstance(instance.cls, Class) else []
    found = [each for each in body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
    return found[0] if len(found) == 1 and not found[0].decorator_list else None


def _constants_of(init: ast.FunctionDef, instance: Instance) -> dict[str, object]:
    """The parameters that are constants in a call of a constructor, and that it does not bind to anything else."""
    positional = [*init.args.posonlyargs, *init.args.args]
    defaults = dict(zip(reversed(positional), reversed(init.args.defaults), strict=False))
    defaults.update(
        (each, default) for each, default in zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True) if default
    )
    names = nodes_of(init).names
    found: dict[str, object] = {}
    for place, parameter in enumerate((*positional, *init.args.kwonlyargs)):
        if place == 0 or any(not isinstance(each.ctx, ast.Load) for each in names.get(parameter.arg, ())):
            continue
        value = instance.arguments.get(place - 1 if place < len(positional) else None, parameter.arg)
        default = defaults.get(parameter)
        if isinstance(value, Const):
            found[parameter.arg] = value.value
        elif value is None and isinstance(default, ast.Constant):
            found[parameter.arg] = default.value
    return found


def _is_left_out(store: ast.AST, parents: Mapping[ast.AST, ast.AST], given: _Constants) -> bool:
    """Whether some branch around an assignment is certainly not taken."""
    node = store
    while node in parents:
        inside, node = node, parents[node]
        if isinstance(node, ast.If):
            taken = _truth(node.test, given)
            if taken is not None and taken is not any(inside is each for each in node.body):
                return True
    return False


def _truth(test: ast.expr, given: _Constants) -> bool | None:
    """What a test of parameters gives, if all that it asks for are constants."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _truth(test.operand, given)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp):
        parts = [_truth(each, given) for each in test.values]
        decisive = isinstance(test.op, ast.Or)
        return decisive if decisive in parts else None if None in parts else not decisive
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        return _compared(test.left, test.ops[0], test.comparators[0], given)
    return bool(given[test.id]) if isinstance(test, ast.Name) and test.id in given else None


def _compared(left: ast.expr, relation: ast.cmpop, right: ast.expr, given: _Constants) -> bool | None:
    first = _constants_in(left, given)
    others = _constants_in(right, given)
    if first is None or others is None or isinstance(left, ast.Tuple | ast.List | ast.Set):
        return None
    if isinstance(relation, ast.In | ast.NotIn):
        if not isinstance(right, ast.Tuple | ast.List | ast.Set):
            return None
        return (first[0] in others) is isinstance(relation, ast.In)
    if isinstance(right, ast.Tuple | ast.List | ast.Set):
        return None
    if isinstance(relation, ast.Is | ast.IsNot):
        is_same = first[0] is others[0]
        return is_same is isinstance(relation, ast.Is) if None in (first[0], others[0]) else None
    if isinstance(relation, ast.Eq | ast.NotEq):
        return (first[0] == others[0]) is isinstance(relation, ast.Eq)
    return None


def _constants_in(node: ast.expr, given: _Constants) -> list[object] | None:
    """The constants that an expression is, or that a tuple, list or set has in it."""
    parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    found: list[object] = []
    for part in parts:
        if isinstance(part, ast.Constant):
            found.append(part.value)
        elif isinstance(part, ast.Name) and part.id in given:
            found.append(given[part.id])
        else:
            return None
    return found
