"""What a loop over batches makes of one batch, and what it carries from each to the next, as it is written."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from dllint.interp.source.bindings import Definition
from dllint.interp.source.trees import walk

_GROWING = frozenset(("append", "extend", "add", "update"))


@dataclass(frozen=True, slots=True)
class Sum:
    """A statement that adds something to what was there: ``total += loss``. ``name`` is the sum as it is written."""

    name: str
    statement: ast.stmt
    added: ast.expr


@dataclass(frozen=True, slots=True)
class Remainder:
    """A variable that each iteration binds to something of its batch alone, and that is read after the loop."""

    name: str
    value: ast.expr
    reads: tuple[ast.Name, ...]


def sums_in(loop: ast.AST) -> Iterator[Sum]:
    """What is added up in a loop, also in loops within it."""
    for node in walk(loop):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
            yield Sum(ast.unparse(node.target), node, node.value)
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add):
            name = ast.unparse(node.targets[0])
            left, right = node.value.left, node.value.right
            if name in (ast.unparse(left), ast.unparse(right)):
                yield Sum(name, node, right if ast.unparse(left) == name else left)


def remainders(loop: ast.For, around: ast.AST) -> Iterator[Remainder]:
    """What the last iteration of a loop leaves in variables, of its own batch alone. ``around`` is the function."""
    if any(isinstance(node, ast.Break | ast.Return) for node in walk(loop)):
        return  # it need not go over all batches
    bindings = dict(_bindings(loop.body))
    carried = _carried(loop, bindings)
    for name, value in bindings.items():
        reads = tuple(_reads_after(loop, name, around))
        if reads and _is_of_batch(value, loop, bindings, carried):
            yield Remainder(name, value, reads)


def _bindings(body: list[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """The variables that a block binds in any case, and to what; of several the last."""
    for statement in body:
        if isinstance(statement, ast.With):
            yield from _bindings(statement.body)
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                names = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
                yield from ((name.id, statement.value) for name in names if isinstance(name, ast.Name))


def _carried(loop: ast.For, bindings: dict[str, ast.expr]) -> set[str]:
    """The names of what one iteration leaves for the next: sums, lists that grow, objects that are told something."""
    found = {each.name for each in sums_in(loop)}
    bound = _names_in(loop.target) | set(bindings)
    for node in walk(loop):
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found |= {ast.unparse(node), ast.unparse(node.value)} - {"self"}
        elif isinstance(node, ast.AugAssign):
            found.add(ast.unparse(node.target))
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GROWING:
            found.add(ast.unparse(node.func.value))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            given = [node.value.func, *node.value.args]
            found |= {ast.unparse(each.value) for each in given if isinstance(each, ast.Attribute)} - bound - {"self"}
            found |= {each.id for each in given[1:] if isinstance(each, ast.Name)} - bound
    return found | _read_before_bound(loop)


def _read_before_bound(loop: ast.For) -> set[str]:
    """The variables that an iteration reads before it binds them: they come from the one before."""
    stores: dict[str, int] = {}
    for node in walk(loop):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stores[node.id] = min(node.lineno, stores.get(node.id, node.lineno))
    assigned = {
        name: node for node in walk(loop) if isinstance(node, ast.Assign) for name in map(_name_of, node.targets)
    }
    return {
        node.id
        for node in walk(loop)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in stores
        if node.lineno < stores[node.id] or (node.lineno == stores[node.id] and _is_in(node, assigned.get(node.id)))
    }


def _is_of_batch(value: ast.expr, loop: ast.For, bindings: dict[str, ast.expr], carried: set[str]) -> bool:
    """Whether an expression is made of what the loop goes over, and of nothing that it carries on."""
    batch = _names_in(loop.target)
    seen: set[str] = set()
    pending = [value]
    is_of_batch = False
    for expression in pending:  # which grows meanwhile
        for node in walk(expression):
            if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and ast.unparse(node) in carried:
                return False
            if isinstance(node, ast.Name) and node.id not in seen:
                seen.add(node.id)
                is_of_batch = is_of_batch or node.id in batch
                if node.id in bindings and node.id not in batch:
                    pending.append(bindings[node.id])
    return is_of_batch


def _reads_after(loop: ast.For, name: str, around: ast.AST) -> Iterator[ast.Name]:
    """Where a variable is read after a loop, as the loop left it."""
    end = loop.end_lineno or loop.lineno
    later = [node for node in walk(around) if getattr(node, "lineno", 0) > end]
    own = {id(node): each for each in later if isinstance(each, ast.Assign | ast.AugAssign) for node in walk(each)}
    stores = [
        node for node in later if isinstance(node, ast.Name) and node.id == name and not isinstance(node.ctx, ast.Load)
    ]
    inside = {
        id(node) for each in walk(around) if isinstance(each, Definition) and each is not around for node in walk(each)
    }
    for node in later:
        is_read = isinstance(node, ast.Name) and node.id == name and id(node) not in inside
        if not is_read or not isinstance(node, ast.Name):
            continue
        statement = own.get(id(node))
        if not isinstance(node.ctx, ast.Load) and not isinstance(statement, ast.AugAssign):
            continue
        before = (each for each in stores if each is not node and each.lineno <= node.lineno)
        if not any(statement is None or own.get(id(each)) is not statement for each in before):
            yield node


def _names_in(node: ast.AST) -> set[str]:
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}


def _name_of(target: ast.expr) -> str:
    return target.id if isinstance(target, ast.Name) else ""


def _is_in(node: ast.AST, around: ast.AST | None) -> bool:
    return around is not None and any(each is node for each in walk(around))
