"""Data that is cut in two by slices: ``train, test = scaled[:n], scaled[n:]``, or rows of a table that are drawn."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.dataclass import dataclass
from dllint.interp.source.bindings import Definition
from dllint.interp.source.phases import phases_in
from dllint.interp.source.positions import ancestors, statement_around
from dllint.interp.source.trees import walk
from dllint.sites import Site

_SIZES = ("len", "range", "int", "print")  # what tells of data and does not hand it on
_ROWS = ("iloc", "loc")
_AS_THEY_ARE = frozenset(("copy", "reset_index"))


@dataclass(frozen=True, slots=True)
class Cut:
    """Where data is cut: the assignment of the part for training, and that of the part which is held out."""

    train: ast.Assign
    held_out: ast.Assign


@dataclass(frozen=True, slots=True)
class Part:
    """A name that gets the rows of some data up to a bound, or from a bound on."""

    name: str
    is_head: bool
    bounds: frozenset[str]
    statement: ast.Assign


def cut_after(site: Site) -> Cut | None:
    """Where what a statement assigns is cut into a part for training and a later one, which is read, in its scope.

    Args:
        site: an expression in an assignment to a variable, or to columns of one.
    """
    statement = statement_around(site)
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    root = _root(target) if target is not None else ""
    if statement is None or not root:
        return None
    around = next((each for each in ancestors(site) if isinstance(each, Definition)), None)
    later = [each for each in statements_of(around or site.module.tree) if each.lineno > statement.lineno]
    return next((Cut(train.statement, held_out.statement) for train, held_out in cuts_in(later, root)), None)


def cuts_in(statements: list[ast.stmt], root: str) -> Iterator[tuple[Part, Part]]:
    """The parts for training and those held out, which are read, that some statements cut off from what a name has."""
    heads: list[Part] = []
    for part in _parts(statements, root):
        if part.is_head and "training" in phases_in(part.name):
            heads.append(part)
        fitting = [each for each in heads if not part.is_head and each.bounds & part.bounds]
        if fitting and "training" not in phases_in(part.name) and phases_in(part.name) and _is_read(part, statements):
            yield fitting[-1], part


def statements_of(scope: ast.AST) -> list[ast.stmt]:
    """The statements of a scope in their order, without those of definitions in it."""
    found: list[ast.stmt] = []
    for field in ("body", "orelse", "finalbody", "handlers"):
        for each in getattr(scope, field, ()):
            if isinstance(each, ast.stmt):
                found.append(each)
            if not isinstance(each, Definition):
                found += statements_of(each)
    return sorted(found, key=lambda each: each.lineno)


def _parts(statements: list[ast.stmt], root: str) -> Iterator[Part]:
    """The parts that are cut off from what a name has, or from what is computed of it."""
    data = {root}
    for statement in statements:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        for target, value in _pairs(statement.targets[0], statement.value):
            cut = _cut(value, data) or _drawn(target, value, data) or _compared(target, value, data)
            names = {each.id for each in walk(target) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
            if cut is not None and isinstance(target, ast.Name):
                yield Part(target.id, cut[0], cut[1], statement)
                data |= names if not phases_in(target.id) else set()
            elif _hands_on(value, data):
                data |= names
            else:
                data -= names


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        yield from zip(target.elts, value.elts, strict=True)
    else:
        yield target, value


def _cut(value: ast.expr, data: set[str]) -> tuple[bool, frozenset[str]] | None:
    """Whether an expression is the beginning of some data, or a later part, and the names in the bound before that."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and not value.args:
        value = value.func.value  # .copy()
    if not isinstance(value, ast.Subscript) or _root(value.value) not in data:
        return None
    rows = value.slice.elts[0] if isinstance(value.slice, ast.Tuple) and value.slice.elts else value.slice
    if not isinstance(rows, ast.Slice) or rows.step is not None:
        return None
    starts_late = rows.lower is not None and not (isinstance(rows.lower, ast.Constant) and rows.lower.value == 0)
    ends_early = rows.upper is not None and not _is_length(rows.upper)
    bound = rows.lower if starts_late else rows.upper
    return (not starts_late, _named_in(bound)) if bound is not None and (starts_late or ends_early) else None


def _compared(target: ast.expr, value: ast.expr, data: set[str]) -> tuple[bool, frozenset[str]] | None:
    """The same of rows below a bound, or from it on, if the part is called what it is for: ``train = df[df.year < n]``.

    What else is compared so leaves out single rows.
    """
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _AS_THEY_ARE:
        value = value.func.value
    rows = value.slice if isinstance(value, ast.Subscript) and _root(value.value) in data else None
    if not isinstance(rows, ast.Compare) or len(rows.ops) != 1 or not isinstance(target, ast.Name):
        return None
    is_head, is_rest = isinstance(rows.ops[0], ast.Lt | ast.LtE), isinstance(rows.ops[0], ast.Gt | ast.GtE)
    is_part = (is_head or is_rest) and bool(phases_in(target.id))
    return (is_head, _named_in(rows.comparators[0])) if is_part else None


def _named_in(bound: ast.expr) -> frozenset[str]:
    return frozenset(ast.unparse(each) for each in walk(bound) if isinstance(each, ast.Name | ast.Constant))


def _drawn(target: ast.expr, value: ast.expr, data: set[str]) -> tuple[bool, frozenset[str]] | None:
    """The same of a table, some rows of which are drawn, and the others kept: ``frame.drop(train.index)``."""
    if (
        not isinstance(value, ast.Call)
        or not isinstance(value.func, ast.Attribute)
        or _root(value.func.value) not in data
    ):
        return None
    if value.func.attr == "sample" and isinstance(target, ast.Name):
        return (True, frozenset((target.id,))) if any(each.arg == "frac" for each in value.keywords) else None
    given = value.args[0] if value.func.attr == "drop" and value.args else None
    is_index = isinstance(given, ast.Attribute) and given.attr == "index" and isinstance(given.value, ast.Name)
    return (False, frozenset((ast.unparse(given.value),))) if is_index and isinstance(given, ast.Attribute) else None


def _is_length(bound: ast.expr) -> bool:
    called = bound.func if isinstance(bound, ast.Call) else None
    is_shape = (
        isinstance(bound, ast.Subscript) and isinstance(bound.value, ast.Attribute) and bound.value.attr == "shape"
    )
    return is_shape or (isinstance(called, ast.Name) and called.id == "len")


def _hands_on(value: ast.expr, data: set[str]) -> bool:
    """Whether the samples of some data are in what an expression gives, not only their number."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in _SIZES:
        return False
    if isinstance(value, ast.BinOp | ast.Compare | ast.Constant):
        return False
    return any(isinstance(each, ast.Name) and each.id in data for each in walk(value))


def _root(node: ast.expr) -> str:
    """The variable that an expression is, or the columns or rows of which it is: ``frame[columns]``, ``frame.iloc``."""
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr in (*_ROWS, "values")):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_read(part: Part, statements: list[ast.stmt]) -> bool:
    after = (each for each in statements if each.lineno > part.statement.lineno and not isinstance(each, Definition))
    return any(
        isinstance(node, ast.Name) and node.id == part.name and isinstance(node.ctx, ast.Load)
        for each in after
        for node in walk(each)
    )
