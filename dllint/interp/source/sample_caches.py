"""What the `__getitem__` of a dataset keeps for the next time."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.interp.source.trees import walk

_EMPTY = ("{}", "dict()", "OrderedDict()", "collections.OrderedDict()")


def sample_caches(owner: ast.ClassDef) -> Iterator[tuple[str, ast.stmt]]:
    """What `__getitem__`, or a method that it calls, keeps: the name of the cache, and where it is put into it."""
    methods = {each.name: each for each in owner.body if isinstance(each, ast.FunctionDef)}
    pending, seen = ["__getitem__"], set[str]()
    while pending:
        method = methods.get(name := pending.pop())
        if method is None or name in seen:
            continue
        seen.add(name)
        if any(_is_without_limit(each) for each in method.decorator_list):
            yield name, method
        for node in walk(method):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_self(node.func.value):
                pending.append(node.func.attr)
            for target in node.targets if isinstance(node, ast.Assign) else ():
                cache = target.value if isinstance(target, ast.Subscript) else None
                if isinstance(cache, ast.Attribute) and _is_self(cache.value) and _is_cache(cache.attr, owner, methods):
                    assert isinstance(node, ast.Assign)
                    yield cache.attr, node


def attribute_of_self(node: ast.AST) -> str:
    """The name in ``self.name``, else nothing."""
    return node.attr if isinstance(node, ast.Attribute) and _is_self(node.value) else ""


def _is_cache(name: str, owner: ast.ClassDef, methods: dict[str, ast.FunctionDef]) -> bool:
    """Whether the constructor makes an attribute an empty dict or a list of `None`, and its entries are read."""
    made = [
        (method.name, node.value)
        for method in methods.values()
        for node in walk(method)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        if name in map(attribute_of_self, node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    is_empty = all(where == "__init__" and _is_empty(value) for where, value in made)
    return bool(made) and is_empty and any(_reads(node, name) for node in walk(owner))


def _is_empty(value: ast.expr) -> bool:
    """Whether an expression is an empty dict, or a list of places for something: `[None] * n`."""
    if isinstance(value, ast.BinOp) and isinstance(value.left, ast.List):
        return [getattr(each, "value", ...) for each in value.left.elts] == [None]
    return ast.unparse(value) in _EMPTY


def _reads(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        return attribute_of_self(node.func.value) == name
    return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and attribute_of_self(node.value) == name


def _is_without_limit(decorator: ast.expr) -> bool:
    """Whether a decorator keeps what a method has returned: `cache`, or `lru_cache(maxsize=None)`."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
    if name == "lru_cache" and isinstance(decorator, ast.Call):
        given = [*decorator.args, *(each.value for each in decorator.keywords)]
        return bool(given) and isinstance(given[0], ast.Constant) and given[0].value is None
    return name == "cache" and not isinstance(decorator, ast.Call)


def _is_self(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"
