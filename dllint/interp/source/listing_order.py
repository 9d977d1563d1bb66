"""Lists of files that are in the order of a directory listing, which is arbitrary."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cached_property

from dllint.interp.source.imported import dotted_name, imported_names
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.trees import children, walk

_FUNCTIONS = ("os.listdir", "os.scandir", "os.walk", "glob.glob", "glob.iglob")
_METHODS = ("iterdir", "glob", "rglob")
_KEEPING = {
    "list": 0,
    "tuple": 0,
    "iter": 0,
    "array": 0,
    "asarray": 0,
    "tqdm": 0,
    "enumerate": 0,
    "filter": 1,
    "map": 1,
}
"""Functions whose result is in the order of an argument, with the position of that."""
_READING = ("index", "count", "copy", "remove", "append", "extend")
_CHANGING = re.compile(r"shuffl|sort|order|align|match|pair|filter|sync", re.IGNORECASE)
"""Words in the names of functions that may bring a list that they are given into another order."""
_MOST_STEPS = 40

Definition = ast.FunctionDef | ast.ClassDef
Leaf = ast.Call | ast.arg
"""What a list comes from: a listing, or a parameter that is the list."""
Behind = frozenset[Leaf] | None
"""All that a list comes from, in the order of that; `None` where it is not known, or the order is another one."""


class ListingOrder:
    """The listings of directories in a file, and what is in their order.

    ``find`` knows the functions and classes of other files by name.
    """

    def __init__(self, tree: ast.Module, find: Callable[[str], tuple[ListingOrder, Definition] | None]) -> None:
        self.tree, self._find = tree, find
        self._imported = imported_names(tree)
        self._used: dict[ast.AST, dict[str, list[ast.Name | ast.Attribute]]] = {}
        self._held: dict[tuple[ast.AST, str], Behind] = {}
        self._defined = {each.name: each for each in tree.body if isinstance(each, Definition)}

    @cached_property
    def parents(self) -> dict[ast.AST, ast.AST]:
        return {child: node for node in nodes_of(self.tree).all for child in ast.iter_child_nodes(node)}

    def find(self, name: str) -> tuple[ListingOrder, Definition] | None:
        """A function or class by its name, in this file or in others."""
        return (self, self._defined[name]) if name in self._defined else self._find(name)

    def is_listing(self, call: ast.Call) -> bool:
        if dotted_name(call, self._imported) in _FUNCTIONS:
            return True
        function = call.func
        is_module = isinstance(function, ast.Attribute) and ast.unparse(function.value).split(".")[0] in self._imported
        return (
            isinstance(function, ast.Attribute)
            and function.attr in _METHODS
            and (not is_module or isinstance(function.value, ast.Call))
            and any(each.split(".")[0] == "pathlib" for each in self._imported.values())
        )

    def behind(self, node: ast.expr | None, steps: int = 0) -> Behind:
        """What a list is in the order of."""
        if steps > _MOST_STEPS or node is None:
            return None
        match node:
            case ast.Call():
                return self._behind_call(node, steps + 1)
            case ast.Name(id=name):
                return self._behind_name(node, name, steps + 1)
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                owner = self._around(node, ast.ClassDef)
                return self._behind_key(owner, f"self.{name}", steps + 1) if owner is not None else None
            case ast.ListComp(generators=[one]) | ast.GeneratorExp(generators=[one]):
                names = {each.id for each in walk(one.target) if isinstance(each, ast.Name)}
                if isinstance(node.elt, ast.Call) and self.is_listing(node.elt):
                    return frozenset([node.elt])
                made_of = {each.id for each in walk(node.elt) if isinstance(each, ast.Name)}
                return self.behind(one.iter, steps + 1) if names & made_of else None
            case ast.Subscript(value=ast.Call(func=ast.Name(id="next"), args=[ast.Call() as walked])):
                return frozenset([walked]) if self.is_listing(walked) else None
            case ast.Subscript(value=held, slice=ast.Slice(step=None)):
                return self.behind(held, steps + 1)
            case ast.BinOp(op=ast.Add(), left=left, right=right):
                return _union(self.behind(left, steps + 1), self.behind(right, steps + 1))
        return None

    def _behind_call(self, call: ast.Call, steps: int) -> Behind:
        name = last_name(call.func)
        if self.is_listing(call):
            return frozenset([call]) if name != "walk" else None
        if name in _KEEPING and len(call.args) > _KEEPING[name]:
            return self.behind(call.args[_KEEPING[name]], steps)
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("copy", "tolist"):
            return self.behind(call.func.value, steps)
        returned = self._returned(call)
        inner = returned[0].behind(returned[1], steps) if returned is not None else None
        return frozenset([call]) if inner and all(isinstance(each, ast.Call) for each in inner) else None

    def _returned(self, call: ast.Call) -> tuple[ListingOrder, ast.expr] | None:
        """What a function of the project, or a method of the class, returns, if it does so at one place."""
        function, listings = None, self
        if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "self":
            owner = self._around(call, ast.ClassDef)
            body = owner.body if isinstance(owner, ast.ClassDef) else []
            function = next(
                (each for each in body if isinstance(each, ast.FunctionDef) and each.name == call.func.attr), None
            )
        elif isinstance(call.func, ast.Name) and (known := self.find(call.func.id)) is not None:
            listings, function = known[0], known[1] if isinstance(known[1], ast.FunctionDef) else None
        returns = [each for each in own_nodes(function) if isinstance(each, ast.Return)] if function is not None else []
        return (listings, returns[0].value) if len(returns) == 1 and returns[0].value is not None else None

    def _behind_name(self, node: ast.Name, name: str, steps: int) -> Behind:
        function = self._around(node, ast.FunctionDef)
        while isinstance(function, ast.FunctionDef):
            if name in parameters_of(function) or self.times_bound(name, function):
                return self._behind_key(function, name, steps)
            function = self._around(function, ast.FunctionDef)
        return self._behind_key(self.tree, name, steps)

    def _behind_key(self, scope: ast.AST, key: str, steps: int) -> Behind:
        """What a variable of a function or of the file, or an attribute of a class, is in the order of."""
        if isinstance(scope, ast.ClassDef) and self._is_set_from_outside(key.partition(".")[2]):
            return None
        if (scope, key) not in self._held:
            self._held[scope, key] = frozenset()  # what it is made of itself adds nothing
            found: Behind = frozenset()
            if isinstance(scope, ast.FunctionDef) and key in parameters_of(scope):
                found = frozenset([parameters_of(scope)[key]])
            for value in self._values(scope, key, steps):
                found = _union(
                    found, value if value is None or isinstance(value, frozenset) else self.behind(value, steps)
                )
            self._held[scope, key] = found
        return self._held[scope, key]

    def _is_set_from_outside(self, name: str) -> bool:
        """Whether other code than methods sets or sorts an attribute: `dataset.images.sort()`."""
        uses = (node for node in nodes_of(self.tree).attributes.get(name, ()) if ast.unparse(node.value) != "self")
        return any(
            isinstance(node.ctx, ast.Store) or _is_changed(node, self.parents[node], self.parents) for node in uses
        )

    def _values(self, scope: ast.AST, key: str, steps: int) -> Iterator[ast.expr | Behind]:
        """All that a key is bound to, or gets appended; `None` for what changes it in another way."""
        for node in self.uses(scope).get(key, ()):
            parent = self.parents[node]
            if isinstance(node.ctx, ast.Store):
                yield from self._assigned(node, parent)
            elif isinstance(node.ctx, ast.Del) or _is_changed(node, parent, self.parents):
                yield None
            elif isinstance(parent, ast.Attribute) and parent.attr in ("append", "extend"):
                yield self._appended(parent, steps)

    def uses(self, scope: ast.AST) -> dict[str, list[ast.Name | ast.Attribute]]:
        """The variables of a function or of the file, or the attributes of `self` in a class, by name."""
        if scope not in self._used:
            uses: dict[str, list[ast.Name | ast.Attribute]] = {}
            for node in own_nodes(scope) if isinstance(scope, ast.Module) else walk(scope):
                if isinstance(node, ast.Name):
                    uses.setdefault(node.id, []).append(node)
                elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
                    uses.setdefault(f"self.{node.attr}", []).append(node)
            self._used[scope] = uses
        return self._used[scope]

    def times_bound(self, name: str, scope: ast.AST) -> int:
        return sum(isinstance(each.ctx, ast.Store) for each in self.uses(scope).get(name, ()))

    def _assigned(self, node: ast.expr, parent: ast.AST) -> Iterator[ast.expr | Behind]:
        match parent:
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value) | ast.NamedExpr(value=value):
                yield frozenset() if _is_empty(value) else value
            case ast.AugAssign(op=ast.Add(), value=value):
                yield frozenset() if _is_empty(value) else value
            case ast.Tuple(elts=targets):
                position, statement = targets.index(node), self.parents[parent]
                given = statement.value if isinstance(statement, ast.Assign) else None
                if isinstance(given, ast.Call) and (returned := self._returned(given)) is not None:
                    given = returned[1] if returned[0] is self else None  # a place in another file is none to report
                yield given.elts[position] if isinstance(given, ast.Tuple) and position < len(given.elts) else None
            case _:
                yield None

    def _appended(self, method: ast.Attribute, steps: int) -> Behind:
        """What is appended, in the order of the loop around it, or what a list is extended by."""
        call = self.parents[method]
        if not isinstance(call, ast.Call) or not call.args:
            return None
        if method.attr == "extend":
            return self.behind(call.args[0], steps)
        loop = self._around(call, ast.For)
        return self.behind(loop.iter, steps) if isinstance(loop, ast.For) else None

    def _around(self, node: ast.AST, kind: type[ast.AST]) -> ast.AST | None:
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, kind):
                return node
        return None


def own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function or a file without those of the functions and classes in it."""
    pending = children(scope)
    for node in pending:  # which grows meanwhile
        yield node
        if not isinstance(node, Definition):
            pending += children(node)


def parameters_of(function: ast.FunctionDef) -> dict[str, ast.arg]:
    given = function.args
    return {each.arg: each for each in (*given.posonlyargs, *given.args, *given.kwonlyargs) if each.arg != "self"}


def _is_changed(node: ast.expr, parent: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """Whether a use of a list may bring its entries into another order, or replace some."""
    if isinstance(parent, ast.Attribute):
        return isinstance(parents[parent], ast.Call) and parent.attr not in _READING
    if isinstance(parent, ast.Subscript):
        return parent.value is node and not isinstance(parent.ctx, ast.Load)
    is_statement = isinstance(parent, ast.Call) and isinstance(parents[parent], ast.Expr)
    return is_statement and isinstance(parent, ast.Call) and bool(_CHANGING.search(last_name(parent.func)))


def _union(left: Behind, right: Behind) -> Behind:
    return None if left is None or right is None else left | right


def _is_empty(value: ast.expr) -> bool:
    return ast.unparse(value) in ("[]", "list()", "None")


def last_name(function: ast.expr) -> str:
    """``glob`` of ``glob.glob``."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
