"""What the last iteration of a loop over batches leaves behind, of its own batch alone, as it is written."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from dllint.dataclass import dataclass
from dllint.interp.source.batchwise import bindings_in, names_in, sums_in
from dllint.interp.source.later_reads import walk_without_own
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.trees import walk

_GROWING = frozenset(("append", "extend", "add", "update"))
SETTING = frozenset(("train", "eval", "zero_grad", "requires_grad_", "to", "cuda", "cpu"))
"""What a batch is not told to."""


@dataclass(frozen=True, slots=True)
class Remainder:
    """A variable that each iteration binds to something of its batch alone, and that is read after the loop."""

    name: str
    value: ast.expr
    reads: tuple[ast.Name, ...]


def remainders(loop: ast.For, around: ast.AST) -> Iterator[Remainder]:
    """What the last iteration of a loop leaves in variables, of its own batch alone. ``around`` is the function."""
    if any(isinstance(node, ast.Break | ast.Return) for node in walk(loop)):
        return  # it need not go over all batches
    bindings: dict[str, list[ast.expr]] = {}
    for each in walk(loop.target):
        if isinstance(each, ast.Name):
            bindings[each.id] = [each]
    for name, value in bindings_in(loop.body):
        bindings.setdefault(name, []).append(value)
    read = {name: reads for name in bindings if (reads := tuple(_reads_after(loop, name, around)))}
    carried = _carried(loop, set(bindings)) if read else set()
    for name, reads in read.items():
        value = bindings[name][-1]
        if _is_of_batch(value, loop, bindings, carried):
            yield Remainder(name, value, reads)


def is_of_one_batch(value: ast.expr, loop: ast.For) -> bool:
    """Whether an expression in a loop is made of what the loop goes over, and of nothing that it carries on."""
    bindings: dict[str, list[ast.expr]] = {}
    begun = _begun_anew(loop)
    added = ((each.name, each.added) for each in sums_in(loop) if each.name in begun)
    for name, bound in (*bindings_in(loop.body), *added):
        bindings.setdefault(name, []).append(bound)
    return _is_of_batch(value, loop, bindings, _carried(loop, set(bindings)))


def _carried(loop: ast.For, bound_in_it: set[str]) -> set[str]:
    """The names of what one iteration leaves for the next: sums, lists that grow, objects that are told something."""
    begun, replaced = _begun_anew(loop), _replaced_attributes(loop)
    found = {each.name for each in sums_in(loop)} - begun
    of_batch = names_in(loop.target)
    bound = of_batch | bound_in_it
    for node in walk(loop):
        if id(node) in replaced:
            continue
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found |= {ast.unparse(node), ast.unparse(node.value)} - {"self"} - of_batch  # `batch[key] = ...`
        elif isinstance(node, ast.AugAssign):
            found |= {ast.unparse(node.target)} - begun
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _GROWING:
            found.add(ast.unparse(node.func.value))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            given = [each for each in (node.value.func, *node.value.args) if getattr(each, "attr", "") not in SETTING]
            found |= {ast.unparse(each.value) for each in given if isinstance(each, ast.Attribute)} - bound - {"self"}
            found |= {each.id for each in node.value.args if isinstance(each, ast.Name)} - bound
    return found | _read_before_bound(list(walk(loop)))


def _replaced_attributes(loop: ast.For) -> set[int]:
    """The attributes of variables that each iteration binds in any case, before it reads anything of the object."""
    first: dict[str, int] = {}
    for node in walk(loop):
        if isinstance(node, ast.Name):
            first[node.id] = min(node.lineno, first.get(node.id, node.lineno))
    targets = (target for each in loop.body if isinstance(each, ast.Assign) for target in each.targets[:1])
    return {
        id(target)
        for target in targets
        if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name) and target.value.id != "self"
        if first[target.value.id] == target.lineno
    }


def _begun_anew(loop: ast.For) -> set[str]:
    """The variables that each iteration begins with a number, before it adds to them: ``loss = 0.0``."""
    begun = {
        name: value.lineno
        for name, value in reversed(list(bindings_in(loop.body)))
        if isinstance(value, ast.Constant) and isinstance(value.value, int | float)
    }
    first: dict[str, int] = {}
    for node in walk(loop):
        if isinstance(node, ast.Name) and node.id in begun:
            first[node.id] = min(node.lineno, first.get(node.id, node.lineno))
    return {name for name, line in begun.items() if first.get(name) == line}


def _read_before_bound(nodes: Sequence[ast.AST]) -> set[str]:
    """The variables that an iteration reads before it binds them: they come from the one before.

    An assignment reads what it assigns first: ``hits, seen = count(batch, hits, seen)``. What the other arm of a branch
    has bound is not bound in this one: ``if step == 0: mean = x`` … ``else: mean = (mean * step + x) / (step + 1)``.
    """
    first: dict[str, int] = {}
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            first[node.id] = min(node.lineno, first.get(node.id, node.lineno))
    binding: dict[int, set[str]] = {}  # by what an assignment reads: what it is the first to bind
    for node in nodes:
        if isinstance(node, ast.Assign):
            bound = {name for target in node.targets for name in names_in(target) if first.get(name) == node.lineno}
            binding.update((id(read), bound) for read in walk(node.value))
    in_arms = {
        name
        for node in nodes
        if isinstance(node, ast.If) and node.orelse
        for name in _read_before_bound([inner for each in node.orelse for inner in walk(each)])
        if first[name] >= node.lineno
    }
    return in_arms | {
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in first
        if node.lineno < first[node.id] or node.id in binding.get(id(node), ())
    }


def _is_of_batch(value: ast.expr, loop: ast.For, bindings: dict[str, list[ast.expr]], carried: set[str]) -> bool:
    """Whether an expression is made of what the loop goes over, in both arms, and of nothing that it carries on."""
    return _origin(value, names_in(loop.target), bindings, carried, set()) == "batch"


def _origin(
    value: ast.expr, batch: set[str], bindings: dict[str, list[ast.expr]], carried: set[str], seen: set[str]
) -> str:
    """``carried`` if an iteration hands any part of an expression on, ``batch`` if some is of the batch, else ""."""
    if isinstance(value, ast.IfExp):
        arms = {_origin(arm, batch, bindings, carried, seen.copy()) for arm in (value.body, value.orelse)}
        return "carried" if "carried" in arms else arms.pop() if len(arms) == 1 else ""
    found = set()
    for node in walk(value):
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript) and ast.unparse(node) in carried:
            return "carried"
        if isinstance(node, ast.Name) and node.id in batch:
            found.add("batch")
        elif isinstance(node, ast.Name) and node.id not in seen:
            seen.add(node.id)
            found |= {_origin(each, batch, bindings, carried, seen) for each in bindings.get(node.id, ())}
    return "carried" if "carried" in found else "batch" if "batch" in found else ""


def _reads_after(loop: ast.For, name: str, around: ast.AST) -> Iterator[ast.Name]:
    """Where a variable is read after a loop, as the loop left it."""
    end = loop.end_lineno or loop.lineno
    nodes = nodes_of(around)
    later = [node for node in nodes.names.get(name, ()) if node.lineno > end]
    if not later:
        return
    own = {id(node) for node in walk_without_own(name, around)}
    later = [node for node in later if id(node) in own]
    changes = (each for each in nodes.of(ast.Assign, ast.AugAssign) if each.lineno > end)
    changed = {id(node): each for each in changes for node in walk(each)}
    stores = [node for node in later if not isinstance(node.ctx, ast.Load)]
    within = (each for each in nodes.of(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef) if each is not around)
    inside = {id(node) for each in within for node in walk(each)}
    for node in later:
        if id(node) in inside:
            continue
        statement = changed.get(id(node))
        if not isinstance(node.ctx, ast.Load) and not isinstance(statement, ast.AugAssign):
            continue
        before = (each for each in stores if each is not node and each.lineno <= node.lineno)
        if not any(statement is None or changed.get(id(each)) is not statement for each in before):
            yield node
