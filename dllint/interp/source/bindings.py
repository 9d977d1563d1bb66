"""What the top level of a module binds, without executing it: names and the statements that may define them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import field
from functools import lru_cache

from dllint.dataclass import dataclass
from dllint.interp.source.trees import walk

_SIMPLE = frozenset(
    (ast.AnnAssign, ast.Assert, ast.Assign, ast.AugAssign, ast.Break, ast.Continue, ast.Delete, ast.Expr, ast.Global,
     ast.Import, ast.ImportFrom, ast.Nonlocal, ast.Pass, ast.Raise, ast.Return)
)  # fmt: skip
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_BINDING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign)


@dataclass(slots=True)
class Bindings:
    """``names`` maps a name to the top-level statements in (or by) which it is bound, in order.

    ``stars`` holds the star imports, and ``calls`` the top-level statements that are nothing but a call of a method of
    a name.
    """

    names: dict[str, list[ast.stmt]] = field(default_factory=dict)
    calls: dict[str, list[ast.stmt]] = field(default_factory=dict)
    stars: list[ast.ImportFrom] = field(default_factory=list)


def bindings_of(body: Sequence[ast.stmt]) -> Bindings:
    """Index the names that the statements of a module body bind, at any depth but inside definitions."""
    found = Bindings()
    for top in body:
        if owner := _owner_of_call(top):
            found.calls.setdefault(owner, []).append(top)
        for statement in _statements((top,)):
            if isinstance(statement, ast.ImportFrom) and statement.names[0].name == "*":
                found.stars.append(statement)
                continue
            for name in bound_names(statement):
                tops = found.names.setdefault(name, [])
                if not tops or tops[-1] is not top:
                    tops.append(top)
    return found


def _owner_of_call(statement: ast.stmt) -> str:
    """The ``model`` of a statement ``model.eval()``."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    owner = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    return owner.id if isinstance(owner, ast.Name) else ""


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a body and of the compound statements in it, not of the definitions."""
    for statement in body:
        yield statement
        if isinstance(statement, Definition):
            continue
        for block in blocks_of(statement):
            yield from _statements(block)


def blocks_of(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """The statement lists directly inside a compound statement."""
    if type(statement) in _SIMPLE:
        return
    for attribute in ("body", "orelse", "finalbody"):
        block = getattr(statement, attribute, None)
        if block:
            yield block
    for handler in getattr(statement, "handlers", ()):
        yield handler.body
    for case in getattr(statement, "cases", ()):
        yield case.body


def tops_of(tree: ast.Module, statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The top-level statements in which some statements of a module stand, in order."""
    lines = {each.lineno for each in statements}
    return (top for top in tree.body if lines and not lines.isdisjoint(range(top.lineno, (top.end_lineno or 0) + 1)))


def binds_by_imports(statement: ast.stmt) -> bool:
    """Whether a compound statement binds names by imports alone: what it binds to one does not depend on the others."""
    return not isinstance(statement, _BINDING) and _has_no_other_bindings(statement)


@lru_cache(maxsize=256)
def _has_no_other_bindings(statement: ast.stmt) -> bool:
    inside = (inner for inner in _statements((statement,)) if not isinstance(inner, ast.Import | ast.ImportFrom))
    return not any(True for inner in inside for _ in bound_names(inner))


def bound_names(statement: ast.stmt) -> Iterator[str]:
    """The names that one statement binds by itself (not those bound inside it)."""
    if isinstance(statement, Definition):
        yield statement.name
    elif isinstance(statement, ast.Import):
        for alias in statement.names:
            yield alias.asname or alias.name.partition(".")[0]
    elif isinstance(statement, ast.ImportFrom):
        for alias in statement.names:
            yield alias.asname or alias.name
    elif isinstance(statement, ast.Assign):
        for target in statement.targets:
            yield from target_names(target)
    elif isinstance(statement, ast.AnnAssign | ast.AugAssign | ast.For | ast.AsyncFor):
        yield from target_names(statement.target)
    elif isinstance(statement, ast.With | ast.AsyncWith):
        for item in statement.items:
            if item.optional_vars is not None:
                yield from target_names(item.optional_vars)


def target_names(target: ast.expr) -> Iterator[str]:
    """The plain names in an assignment target."""
    if isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            yield from target_names(element)
    elif isinstance(target, ast.Starred):
        yield from target_names(target.value)


@lru_cache(maxsize=1024)
def assigned_in(loop: ast.stmt) -> frozenset[str]:
    """Names and ``self.attribute`` paths that a loop assigns, at any depth outside nested definitions.

    This is what it may change between two iterations.
    """
    found: set[str] = set()
    for target in targets_in([loop]):
        if isinstance(target, ast.Name):
            found.add(target.id)
        elif isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
            found.add(f"{target.value.id}.{target.attr}")
    return frozenset(found)


def targets_in(body: list[ast.stmt]) -> Iterator[ast.expr]:
    """The names, attributes and items that statements assign, at any depth outside nested definitions.

    Of assignment expressions, those in the tests of ``if`` and ``while`` count, where people write them.
    """
    for statement in _statements(body):
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                yield from _parts_of(target)
        elif isinstance(statement, ast.AnnAssign | ast.AugAssign | ast.For | ast.AsyncFor):
            yield from _parts_of(statement.target)
        elif isinstance(statement, ast.With | ast.AsyncWith):
            for item in statement.items:
                if item.optional_vars is not None:
                    yield from _parts_of(item.optional_vars)
        elif isinstance(statement, ast.If | ast.While):
            yield from (node.target for node in walk(statement.test) if isinstance(node, ast.NamedExpr))


def _parts_of(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            yield from _parts_of(element)
    elif isinstance(target, ast.Starred):
        yield from _parts_of(target.value)
    else:
        yield target


def is_placeholder(statement: ast.stmt) -> bool:
    """Whether a statement stands for what is still to be written: ``pass``, ``...``, ``raise NotImplementedError``.

    With a message it may refuse a choice that nobody knows.
    """
    if isinstance(statement, ast.Raise):
        return statement.exc is not None and ast.unparse(statement.exc) in (
            "NotImplementedError",
            "NotImplementedError()",
        )
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def bound_in(nodes: Iterable[ast.AST]) -> Set[str]:
    """All names that some nodes bind."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, ast.Global | ast.Nonlocal):
            found.update(node.names)
        elif name := getattr(node, "name", None) or getattr(node, "rest", None):  # definitions, handlers and patterns
            found.add(name)
    return found
