"""Ids that are given out in the order of a set: `{c: i for i, c in enumerate(set(text))}`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.dataclass import dataclass
from dllint.interp.source.listing_order import last_name, own_nodes
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.trees import walk

_KEEPING = ("list", "tuple", "iter", "enumerate", "tqdm")
_MOST_STEPS = 8


@dataclass(frozen=True, slots=True)
class SetIds:
    """Ids in the order of the set that ``made`` makes; ``names`` are what they are called, where they are kept.

    ``element`` is what one element of the set is called, if it is. ``scope`` is the function, class or file around.
    """

    made: ast.expr
    place: ast.AST
    names: frozenset[str]
    element: str
    scope: ast.AST


def ids_in_set_order(tree: ast.Module) -> Iterator[SetIds]:
    """The ids of a file that are given out in the order of a set."""
    if "set" not in nodes_of(tree).names and not nodes_of(tree).of(ast.SetComp):
        return
    classes = nodes_of(tree).of(ast.ClassDef)
    owners = {id(each): owner for owner in classes for each in nodes_of(owner).of(ast.FunctionDef)}
    for function in (tree, *nodes_of(tree).of(ast.FunctionDef)):
        yield from _Finder(function, owners.get(id(function))).ids()


class _Finder:
    """Looks into one function, or into what a file does at its top."""

    def __init__(self, scope: ast.AST, owner: ast.AST | None) -> None:
        self.scope, self.owner = scope, owner
        self.nodes = list(own_nodes(scope))
        self.statements = {
            inner: each for each in self.nodes if isinstance(each, ast.Assign | ast.AnnAssign) for inner in walk(each)
        }

    def ids(self) -> Iterator[SetIds]:
        for node in self.nodes:
            for listed, element, names in self._given_out(node):
                made = self.set_behind(listed)
                if made is not None:
                    around = self.owner if self.owner is not None else self.scope
                    yield SetIds(made, node, frozenset(names or self._kept_in(node)), element, around)

    def _given_out(self, node: ast.AST) -> Iterator[tuple[ast.expr, str, list[str]]]:
        """What is gone over to give out ids, what an element of it is called, and what the ids are kept in."""
        match node:
            case ast.DictComp(generators=[ast.comprehension(target=ast.Tuple(elts=[_, element]), iter=counted)]):
                if _is_enumeration(counted):
                    yield counted, ast.unparse(element), []
            case ast.Call(func=ast.Name(id="dict"), args=[ast.GeneratorExp(elt=ast.Tuple(), generators=[one])]):
                if _is_enumeration(one.iter) and isinstance(one.target, ast.Tuple):
                    yield one.iter, ast.unparse(one.target.elts[-1]), []
            case ast.Call(func=ast.Name(id="dict"), args=[ast.Call(func=ast.Name(id="enumerate")) as counted]):
                yield counted, "", []
            case ast.Call(func=ast.Name(id="dict"), args=[ast.Call(func=ast.Name(id="zip"), args=[left, right])]):
                listed = [
                    each for each in (left, right) if last_name(getattr(each, "func", each)) not in ("range", "count")
                ]
                if len(listed) == 1:
                    yield listed[0], "", []
            case ast.For(target=ast.Tuple(elts=[ast.Name(id=index), ast.Name(id=element)]), iter=counted):
                if _is_enumeration(counted):
                    yield from ((counted, element, [kept]) for kept in _filled(node, index, element))
            case ast.For(target=ast.Name(id=element), iter=listed):
                yield from ((listed, element, [kept]) for kept in _filled(node, "len", element))
            case ast.Call(func=ast.Attribute(value=listed, attr="index"), args=[found]):
                yield listed, _name_of(found), [_name_of(listed)]

    def set_behind(self, node: ast.expr, steps: int = 0) -> ast.expr | None:
        """The set in whose order something is, if nothing sorts it."""
        if steps > _MOST_STEPS:
            return None
        match node:
            case ast.Call(func=ast.Name(id="set"), args=[_]) | ast.SetComp():
                return node
            case ast.Call(func=function, args=[first, *_]) if last_name(function) in _KEEPING:
                return self.set_behind(first, steps + 1)
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                return self.set_behind(left, steps + 1) or self.set_behind(right, steps + 1)
            case ast.Name() | ast.Attribute(value=ast.Name(id="self")):
                values = () if self._is_sorted(node) else self._values(node)
                return next((made for value in values if (made := self.set_behind(value, steps + 1))), None)
        return None

    def _values(self, node: ast.Name | ast.Attribute) -> Iterator[ast.expr]:
        """What a variable was last bound to, and what was added to it; what an attribute is set to at one place."""
        text = ast.unparse(node)
        if isinstance(node, ast.Name):
            added = [
                each for each in self.nodes if isinstance(each, ast.AugAssign) and ast.unparse(each.target) == text
            ]
            yield from (each.value for each in added)
            bound = [each for each in self.nodes if isinstance(each, ast.Assign) and each.lineno < node.lineno]
            named = [each for each in bound if text in map(ast.unparse, each.targets)]
            yield from (each.value for each in sorted(named, key=lambda each: each.lineno)[-1:])
            return
        assigned = [each for each in walk(self.owner or self.scope) if isinstance(each, ast.Assign | ast.AnnAssign)]
        targets = [(each.targets[0] if isinstance(each, ast.Assign) else each.target, each.value) for each in assigned]
        values = [value for target, value in targets if value is not None and ast.unparse(target) == text]
        yield from values if len(values) == 1 else ()

    def _is_sorted(self, node: ast.Name | ast.Attribute) -> bool:
        text = ast.unparse(node)
        calls = (each for each in walk(self.owner or self.scope) if isinstance(each, ast.Call))
        return any(isinstance(call.func, ast.Attribute) and ast.unparse(call.func) == f"{text}.sort" for call in calls)

    def _kept_in(self, node: ast.AST) -> list[str]:
        statement = self.statements.get(node)
        if statement is None:
            return []
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return [name for target in targets if (name := _name_of(target))]


def _filled(loop: ast.For, index: str, element: str) -> Iterator[str]:
    """The dicts that a loop fills with ids: `ids[word] = i`, `words[i] = word`, `ids[word] = len(ids)`."""
    for node in walk(loop):
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(node, ast.Assign) and isinstance(target, ast.Subscript):
            key, value = (
                {each.id for each in walk(part) if isinstance(each, ast.Name)} for part in (target.slice, node.value)
            )
            if (element in key and index in value) or (index in key and element in value):
                yield _name_of(target.value)


def _variables(node: ast.AST) -> set[str]:
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}


def _is_enumeration(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "enumerate"


def _name_of(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
