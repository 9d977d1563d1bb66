"""Variables of a function that are read where no statement of it can have bound them: `UnboundLocalError`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING

from dllint.dataclass import dataclass
from dllint.interp.source.bindings import Definition, bound_in
from dllint.interp.source.exclusive_arms import goes_without
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.trees import children, evaluated

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule

Function = ast.FunctionDef | ast.AsyncFunctionDef
_Place = tuple[int, int]  # line and column
_OTHER_SCOPE = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
_LOOPS = ast.For | ast.AsyncFor | ast.While
_NOWHERE: _Place = (0, 0)


@dataclass(frozen=True, slots=True)
class _Locals:
    """What binds each variable of a function, with the place after which it may, and what is around its own nodes.

    Of what binds one at any time nothing is known but that.
    """

    bound_by: dict[str, list[tuple[_Place, ast.AST | None]]]
    parents: dict[ast.AST, ast.AST]


def is_read_unbound(module: SourceModule, function: Function, node: ast.Name) -> bool:
    """Whether a name in a function raises when it is evaluated: all that binds it there comes after it, or instead.

    In a loop that may have bound it in an earlier turn, the first turn has to come to the read in any case.

    Args:
        module: the file.
        function: the innermost function around the name.
        node: the name, which a statement of the function reads.
    """
    bound: dict[ast.AST, Set[str]] = module.derived.setdefault(bound_in, {})
    if function not in bound:
        bound[function] = bound_in(nodes_of(function).all)
    if node.id not in bound[function]:  # the cheap look: most such names are of the file
        return False
    known: dict[ast.AST, _Locals] = module.derived.setdefault(is_read_unbound, {})
    if function not in known:
        known[function] = _locals_of(function)
    own = known[function]
    read, bindings = (node.lineno, node.col_offset), own.bound_by.get(node.id)
    if not bindings or node not in own.parents:
        return False
    before = (each for place, each in bindings if place < read)
    if not all(each is not None and goes_without(each, node, own.parents) for each in before):
        return False
    return all(_comes_first(node, loop, own) for loop in _loops_around(node, own) if _binds(loop, node.id))


def reads_unbound(module: SourceModule, function: Function) -> bool:
    """Whether any variable of a function is read where it is certainly unbound."""
    nodes = nodes_of(function)
    own = bound_in(nodes.all) & nodes.names.keys()
    reads = (node for name in own for node in nodes.names[name] if isinstance(node.ctx, ast.Load))
    return any(is_read_unbound(module, function, node) for node in reads)


def _locals_of(function: Function) -> _Locals:
    """What a function binds by plain statements; what it binds otherwise may be bound at any time."""
    bound: dict[str, list[tuple[_Place, ast.AST | None]]] = {}
    parents: dict[ast.AST, ast.AST] = {}
    for statement in function.body:
        parents[statement] = function
        for node in _own_nodes(statement, parents):
            place = _place_after(node, parents)
            for name in bound_in((node,)):
                bound.setdefault(name, []).append((place, node if place != _NOWHERE else None))
    nodes = nodes_of(function)
    elsewhere = bound_in(each for each in nodes.all if each is not function and each not in parents)
    for name in elsewhere:  # parameters, comprehensions, and what is `nonlocal` within
        bound.setdefault(name, []).append((_NOWHERE, None))
    return _Locals(bound, parents)


def _own_nodes(statement: ast.stmt, parents: dict[ast.AST, ast.AST]) -> Iterator[ast.AST]:
    """The nodes of a statement that belong to the function itself; what is around each is noted."""
    pending: list[ast.AST] = [statement]
    for node in pending:  # which grows meanwhile
        yield node
        if not isinstance(node, (*_OTHER_SCOPE, Definition)):
            inside = children(node)
            parents.update((each, node) for each in inside)
            pending.extend(inside)


def _place_after(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> _Place:
    """The place up to which what a node binds is still unbound: an assignment binds once its value is there."""
    if isinstance(node, ast.Global | ast.Nonlocal | ast.NamedExpr):
        return _NOWHERE
    if isinstance(node, ast.Name):
        target: ast.AST = node
        while isinstance(parents.get(target), ast.Tuple | ast.List | ast.Starred):
            target = parents[target]
        holder = parents.get(target)
        if isinstance(holder, ast.Assign | ast.AugAssign):
            return _end_of(holder)
        if isinstance(holder, ast.For | ast.AsyncFor) and holder.target is target:
            return _end_of(holder.iter)
        if isinstance(holder, ast.NamedExpr):
            return _NOWHERE
    return getattr(node, "lineno", 0), getattr(node, "col_offset", 0)


def _end_of(node: ast.stmt | ast.expr) -> _Place:
    return node.end_lineno or 0, node.end_col_offset or 0


def _loops_around(node: ast.AST, own: _Locals) -> Iterator[ast.AST]:
    """The loops that a node is in; what a ``for`` goes over is evaluated before it."""
    while node in own.parents:
        inside, node = node, own.parents[node]
        if isinstance(node, _LOOPS) and inside is not getattr(node, "iter", None):
            yield node


def _binds(loop: ast.AST, name: str) -> bool:
    return any(not isinstance(each.ctx, ast.Load) for each in nodes_of(loop).names.get(name, ())) or any(
        name in bound_in((each,)) for each in nodes_of(loop).all if not isinstance(each, ast.Name)
    )


def _comes_first(node: ast.Name, loop: ast.AST, own: _Locals) -> bool:
    """Whether each turn of a loop comes to a name before it can bind anything called so."""
    statement: ast.AST = node
    while not isinstance(statement, ast.stmt):
        statement = own.parents[statement]
    is_plain = isinstance(statement, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Expr | ast.Return)
    while isinstance(own.parents.get(statement), ast.With):
        statement = own.parents[statement]
    return is_plain and own.parents.get(statement) is loop and any(each is node for each in evaluated(statement))
