"""How the `__getitem__` of a dataset reads what the dataset holds: at the index, ahead of it, at multiples of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from dllint.dataclass import dataclass
from dllint.interp.source.trees import walk

Place = Literal["index", "ahead", "window", "multiple", "fraction", "other"]


@dataclass(frozen=True, slots=True)
class SampleRead:
    """``self.name[…]``, where the index of the sample takes part.

    ``at`` says how: at the ``index`` itself, at ``index + 1`` (``ahead``), from the index on (``window``), at a
    ``multiple`` or a ``fraction`` of it, or in some ``other`` way.
    """

    name: str
    at: Place
    node: ast.Subscript


def sample_reads(method: ast.FunctionDef) -> Iterator[SampleRead]:
    """The reads of attributes at something made of the index, if that is never another one and nothing is checked."""
    index = method.args.args[1].arg if len(method.args.args) > 1 else ""
    if not any(_is_check(node, index) for node in walk(method)):
        yield from _reads(method, index)


def split_reads(method: ast.FunctionDef) -> Iterator[SampleRead]:
    """The reads of attributes at a fraction of the index, ``index // n``, by a method that takes one of ``n`` parts of
    what it finds there, ``index % n``, and checks nothing else of the index."""
    index = method.args.args[1].arg if len(method.args.args) > 1 else ""
    checks = [node for node in walk(method) if _is_check(node, index)]
    by = {_divisor(node, ast.Mod, index) for node in checks}
    divided = {_divisor(node, ast.FloorDiv, index) for node in walk(method)} - {""}
    if len(by) == 1 and by == divided and not any("len(" in each for each in by):
        yield from (read for read in _reads(method, index) if read.at == "fraction")


def _divisor(node: ast.AST, operation: type[ast.operator], index: str) -> str:
    """By what the index is divided, as it is written; nothing where it is not."""
    is_such = isinstance(node, ast.BinOp) and isinstance(node.op, operation) and _is_index(node.left, index)
    return ast.unparse(node.right) if isinstance(node, ast.BinOp) and is_such else ""


def _reads(method: ast.FunctionDef, index: str) -> Iterator[SampleRead]:
    known = dict(_bound_once(method))
    if index in _stored(method) or not index:
        return
    for node in walk(method):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            held = node.value
            if isinstance(held, ast.Attribute) and held.attr in ("iloc", "values"):
                held = held.value
            if isinstance(held, ast.Attribute) and isinstance(held.value, ast.Name) and held.value.id == "self":
                first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
                if _mentions(first, index, known):
                    yield SampleRead(held.attr, _place(first, index, known), node)


def counted_attribute(length: ast.expr) -> str:
    """The attribute whose entries a length counts: ``len(self.data)``, ``self.data.shape[0]``; else nothing."""
    match length:
        case ast.Call(func=ast.Name(id="len"), args=[held]):
            pass
        case ast.Subscript(value=ast.Attribute(value=held, attr="shape"), slice=ast.Constant(value=0)):
            pass
        case ast.Call(func=ast.Attribute(value=held, attr="size"), args=[ast.Constant(value=0)]):
            pass
        case _:
            return ""
    return held.attr if isinstance(held, ast.Attribute) and isinstance(held.value, ast.Name) else ""


def declared_length(owner: ast.ClassDef) -> ast.expr | None:
    """What the only statement of ``__len__`` returns, or what the attribute is that it returns."""
    methods = {each.name: each for each in owner.body if isinstance(each, ast.FunctionDef)}
    if "__len__" not in methods:
        return None
    body = [each for each in methods["__len__"].body if not isinstance(each, ast.Expr)]
    value = body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None
    if isinstance(value, ast.Attribute) and "__init__" in methods:
        return only_value(value.attr, owner, methods["__init__"])
    return value


def only_value(name: str, owner: ast.ClassDef, init: ast.FunctionDef) -> ast.expr | None:
    """What an attribute is assigned, if that is done once, in any case, by the constructor, and not changed again."""
    uses = [node for node in walk(owner) if isinstance(node, ast.Attribute) and node.attr == name]
    changed = [
        call
        for call in walk(owner)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.value in uses
        if call.func.attr in ("append", "extend", "remove", "pop", "sort", "insert")
    ]
    made = [
        each.value
        for each in init.body
        if isinstance(each, ast.Assign) and [ast.unparse(target) for target in each.targets] == [f"self.{name}"]
    ]
    stores = [node for node in uses if isinstance(node.ctx, ast.Store)]
    return made[0] if len(made) == 1 and len(stores) == 1 and not changed else None


def _place(node: ast.expr, index: str, known: dict[str, ast.expr]) -> Place:
    node = _resolved(node, known)
    if isinstance(node, ast.Slice):
        lower = _place(node.lower, index, known) if node.lower is not None else "other"
        upper = _place(node.upper, index, known) if node.upper is not None else "other"
        if lower == "index":
            return "window" if upper == "ahead" and not _is_next(_resolved(node.upper, known)) else "index"
        return "multiple" if lower == "multiple" else "other"
    if _is_index(node, index):
        return "index"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        terms = [_resolved(term, known) for term in _terms(node)]
        others = [term for term in terms if not _is_index(term, index)]
        is_plain = all(isinstance(term, ast.Constant | ast.Name | ast.Attribute) for term in others)
        return "ahead" if len(others) == len(terms) - 1 and is_plain else "other"
    if isinstance(node, ast.BinOp) and _is_index(node.left, index) and isinstance(node.op, ast.FloorDiv):
        return "fraction"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        factors = [_resolved(node.left, known), _resolved(node.right, known)]
        is_product = sum(_is_index(factor, index) for factor in factors) == 1
        return (
            "multiple"
            if is_product and all(isinstance(f, ast.Name | ast.Attribute | ast.Constant) for f in factors)
            else "other"
        )
    return "other"


def _mentions(node: ast.expr, index: str, known: dict[str, ast.expr], depth: int = 0) -> bool:
    """Whether an expression is made of the index, directly or by variables."""
    names = {part.id for part in walk(node) if isinstance(part, ast.Name)}
    return index in names or any(
        _mentions(known[name], index, known, depth + 1) for name in names if name in known and depth < 3
    )


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _terms(node.left)
        yield from _terms(node.right)
    else:
        yield node


def _is_next(node: ast.expr | None) -> bool:
    """Whether an expression is one more than another: a slice up to it has one entry."""
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.right, ast.Constant)
        and node.right.value == 1
        and not isinstance(node.left, ast.BinOp)
    )


def _is_index(node: ast.AST, index: str) -> bool:
    return isinstance(node, ast.Name) and node.id == index


def _resolved(node: ast.expr | None, known: dict[str, ast.expr]) -> ast.expr:
    """An expression, or what the variable that it is was bound to."""
    for _ in range(3):
        if isinstance(node, ast.Name) and node.id in known:
            node = known[node.id]
    assert node is not None
    return node


def _bound_once(method: ast.FunctionDef) -> Iterator[tuple[str, ast.expr]]:
    stored = [node.id for node in walk(method) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    for node in walk(method):
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        if not isinstance(node, ast.Assign):
            continue
        pairs = [(target, node.value)]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=False))
        for name, value in pairs:
            if isinstance(name, ast.Name) and stored.count(name.id) == 1:
                yield name.id, value


def _stored(method: ast.FunctionDef) -> set[str]:
    return {node.id for node in walk(method) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _is_check(node: ast.AST, index: str) -> bool:
    """Whether code looks where the index stands: a condition on it or on a length, a remainder, a smaller of two."""
    if isinstance(node, ast.If | ast.IfExp | ast.While | ast.Assert):
        parts = list(walk(node.test))
        return any(_is_index(part, index) or getattr(part, "id", "") == "len" for part in parts) or any(
            getattr(part, "attr", "") == "shape" for part in parts
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and not isinstance(node.left, ast.Constant):
        return True
    names = {"min", "clip", "clamp", "pad", "minimum", "divmod"}
    is_call = isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in names
    return is_call or isinstance(node, ast.Try)
