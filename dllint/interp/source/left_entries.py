"""Entries of a dict that each iteration of a loop binds to something of its batch alone, averaged after the loop."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.interp.source.later_reads import walk_without_own
from dllint.interp.source.remainders import Remainder, is_of_one_batch
from dllint.interp.source.trees import walk


def entries_left(loop: ast.For, around: ast.AST) -> Iterator[Remainder]:
    """The entries of dicts that the last iteration leaves, of its own batch alone, and that are divided after the loop.

    ``sums["loss"] = loss.item()`` in the loop, and after it ``sums["loss"] /= len(loader)``, or the same for every key.
    Nothing else may be done with the dict in the loop but to bind its entries, add to others, and ask for its keys.
    """
    if any(isinstance(node, ast.Break | ast.Return) for node in walk(loop)):
        return  # it need not go over all batches
    for statement in _in_any_case(loop.body):
        target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
        if not isinstance(statement, ast.Assign) or not isinstance(target, ast.Subscript):
            continue
        key = target.slice.value if isinstance(target.slice, ast.Constant) else None
        if not isinstance(target.value, ast.Name) or not isinstance(key, str):
            continue
        reads = tuple(_divided_after(loop, target.value.id, key, around))
        if reads and _is_bound_once(loop, target.value.id, key) and is_of_one_batch(statement.value, loop):
            yield Remainder(ast.unparse(target), statement.value, reads)


def _in_any_case(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block that each iteration comes to."""
    for statement in body:
        yield from _in_any_case(statement.body) if isinstance(statement, ast.With) else (statement,)


def _is_bound_once(loop: ast.For, name: str, key: str) -> bool:
    """Whether a loop only binds entries of a dict, or adds to them, and does so with the one of a key in one place."""
    around = {id(inner): node for node in walk(loop) for inner in ast.iter_child_nodes(node)}
    bound = 0
    for node in walk(loop):
        if not isinstance(node, ast.Name) or node.id != name:
            continue
        entry = around.get(id(node))
        if isinstance(entry, ast.Compare) and all(isinstance(each, ast.In | ast.NotIn) for each in entry.ops):
            continue
        if not isinstance(entry, ast.Subscript) or not isinstance(entry.slice, ast.Constant):
            return False
        is_this = entry.slice.value == key
        if is_this and (not isinstance(entry.ctx, ast.Store) or isinstance(around.get(id(entry)), ast.AugAssign)):
            return False
        bound += is_this
    return bound == 1


def _divided_after(loop: ast.For, name: str, key: str, around: ast.AST) -> Iterator[ast.Name]:
    """Where an entry is divided in place after a loop: by its key, or as one of all in a loop over the keys."""
    end = loop.end_lineno or loop.lineno
    later = [node for node in walk_without_own(name, around) if getattr(node, "lineno", 0) > end]
    if any(isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store) for node in later):
        return
    keys = {
        node.target.id
        for node in later
        if isinstance(node, ast.For) and isinstance(node.target, ast.Name)
        if ast.unparse(node.iter) in (name, f"{name}.keys()", f"list({name})", f"list({name}.keys())")
    }
    for node in later:
        entry = node.target if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div) else None
        if not isinstance(entry, ast.Subscript) or not isinstance(entry.value, ast.Name) or entry.value.id != name:
            continue
        part = entry.slice
        is_key = isinstance(part, ast.Constant) and part.value == key
        if is_key or (isinstance(part, ast.Name) and part.id in keys):
            yield entry.value
