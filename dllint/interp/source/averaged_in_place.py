"""Classes that keep the parameters of a model themselves as an average of them, and update it in place."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.dataclass import dataclass
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.trees import walk

_DECAYS = frozenset(("mul_", "lerp_"))
_OF_MODEL = frozenset(("named_parameters", "parameters"))
_LOADS = ("load", "__setstate__")
_CHANGING = frozenset(("update", "setdefault", "pop", "clear"))


@dataclass(frozen=True, slots=True)
class SelfAverage:
    """What keeps the parameters without a copy, what updates them in place, and the attribute with their model."""

    kept: ast.expr
    update: ast.Call
    model: str


def averaged_in_place(owner: ast.ClassDef, kept: str) -> SelfAverage | None:
    """The average under an attribute of a class whose entries are the parameters that it averages.

    None where anything else puts tensors there, but for what loads them: they may be copies.

    Args:
        owner: the class, with `self.shadow[name].mul_(decay).add_(p.data)`.
        kept: the attribute, `shadow`.
    """
    if not any(name in nodes_of(owner).attributes for name in _DECAYS):
        return None
    listed: list[ast.expr] = []
    updates: list[ast.Call] = []
    models: set[str] | None = None
    for method in (each for each in owner.body if isinstance(each, ast.FunctionDef)):
        if not method.name.startswith(_LOADS):
            for value, loops in _stored(method, kept):
                found = _models_listed(value, loops, method)
                if found is None:
                    return None
                if found:
                    listed.append(value)
                    models = found if models is None else models & found
        for loop in nodes_of(method).of(ast.For):
            calls = list(_decayed(loop, kept))
            updates += calls
            if calls:
                found = _models_of(loop.iter, method)
                models = found if models is None else models & found
    return SelfAverage(listed[0], updates[0], min(models)) if listed and updates and models else None


def _stored(method: ast.FunctionDef, kept: str) -> Iterator[tuple[ast.expr, list[ast.For]]]:
    """What a method puts under an attribute or into it, with the loops around; the whole of what may change it."""
    loops = list(nodes_of(method).of(ast.For))
    taken: set[int] = set()
    for line in nodes_of(method).of(ast.Assign, ast.AnnAssign):
        for target, value in _pairs(line):
            if _is_kept(target.value if isinstance(target, ast.Subscript) else target, kept):
                taken.add(id(target))
                yield value, [loop for loop in loops if any(each is line for each in walk(loop))]
    for node in nodes_of(method).of(ast.Attribute, ast.Subscript, ast.Call):
        if isinstance(node, ast.Call):
            function = node.func if isinstance(node.func, ast.Attribute) else None
            is_changed = function is not None and function.attr in _CHANGING and _is_kept(function.value, kept)
            if is_changed or any(_is_kept(each, kept) for each in node.args):
                yield node, []
            continue
        place = node.value if isinstance(node, ast.Subscript) else node
        if isinstance(node.ctx, ast.Store) and id(node) not in taken and _is_kept(place, kept):
            yield node, []


def _pairs(line: ast.Assign | ast.AnnAssign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """What an assignment binds, and to what, as far as both are written out."""
    targets = line.targets if isinstance(line, ast.Assign) else [line.target]
    for target in targets if line.value is not None else ():
        value = line.value
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
            yield from zip(target.elts, value.elts, strict=True)
        elif value is not None:
            yield target, value


def _models_listed(value: ast.expr, loops: list[ast.For], method: ast.FunctionDef) -> set[str] | None:
    """The attributes with the model whose own parameters a value has; empty for a dict that is yet empty."""
    if isinstance(value, ast.Dict) and not value.keys:
        return set()
    heads: list[ast.comprehension] | list[ast.For] = loops
    if isinstance(value, ast.DictComp):
        heads, value = value.generators[:1], value.value
    found = (_models_of(head.iter, method) for head in heads if _is_parameter(value, head.target))
    return next((each for each in found if each), None)


def _is_parameter(value: ast.expr, target: ast.expr) -> bool:
    """Whether a value is the parameter of ``for name, p``, detached or not: ``p.data``."""
    while True:
        inner = value.func if isinstance(value, ast.Call) and not value.args and not value.keywords else value
        if not isinstance(inner, ast.Attribute) or inner.attr != ("data" if inner is value else "detach"):
            break
        value = inner.value
    names = [getattr(each, "id", "") for each in target.elts] if isinstance(target, ast.Tuple) else []
    return isinstance(value, ast.Name) and len(names) == 2 and value.id == names[1]


def _decayed(loop: ast.For, kept: str) -> Iterator[ast.Call]:
    """The calls in a loop that decay an entry in place: the inner one of ``self.shadow[name].mul_(d).add_(x)``."""
    for node in (each for line in loop.body for each in walk(line)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _DECAYS:
            entry = node.func.value
            if isinstance(entry, ast.Subscript) and _is_kept(entry.value, kept):
                yield node


def _is_kept(node: ast.AST, kept: str) -> bool:
    """Whether an expression is ``self.shadow``."""
    return isinstance(node, ast.Attribute) and node.attr == kept and getattr(node.value, "id", "") == "self"


def _models_of(iterable: ast.expr, method: ast.FunctionDef) -> set[str]:
    """``model`` of ``self.model.named_parameters()``, and of ``net.named_parameters()`` after ``self.model = net``."""
    function = iterable.func if isinstance(iterable, ast.Call) else None
    held = function.value if isinstance(function, ast.Attribute) and function.attr in _OF_MODEL else None
    if isinstance(held, ast.Attribute):
        return {held.attr} if getattr(held.value, "id", "") == "self" else set()
    lines = nodes_of(method).of(ast.Assign, ast.AnnAssign) if isinstance(held, ast.Name) else ()
    bound = [target for line in lines for target, value in _pairs(line) if ast.dump(value) == ast.dump(held or value)]
    kept = (each for each in bound if isinstance(each, ast.Attribute) and getattr(each.value, "id", "") == "self")
    return {each.attr for each in kept}
