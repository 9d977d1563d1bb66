"""Whether a text is no more than the name under which code looks an entry up."""

from __future__ import annotations

import ast

from dllint.interp.source.nodes import nodes_of

GETTERS = frozenset(("get", "pop"))


def is_looked_up(node: ast.AST, key: str) -> bool:
    """Whether an expression looks up an entry of this name: ``state["epoch"]``, ``state.get("epoch", 0)``."""
    name: ast.expr | None = None
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        name = node.slice
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in GETTERS:
        name = node.args[0] if node.args else None
    return isinstance(name, ast.Constant) and name.value == key


def only_looks_up(tree: ast.Module, key: str) -> bool:
    """Whether a file has a text only where it looks up an entry of that name, and nothing else that is called so."""
    nodes = nodes_of(tree)
    named = (*nodes.names.get(key, ()), *nodes.attributes.get(key, ()))
    if named or any(each.arg == key for each in nodes.of(ast.arg, ast.keyword)):
        return False
    looked_up = {id(each.slice) for each in nodes.of(ast.Subscript) if isinstance(each.ctx, ast.Load)}
    texts = (each for each in nodes.of(ast.Constant) if isinstance(each.value, str) and key in each.value)
    return all(id(each) in looked_up for each in texts)


def may_write(tree: ast.Module, key: str, *, of_attributes: bool) -> bool:
    """Whether a file may give something an entry of this name: it has the text elsewhere than where it looks one up, or
    asks for one, or gives a call a keyword of that name. With ``of_attributes``, attributes count that are called so.
    """
    nodes = nodes_of(tree)
    if any(each.arg == key for each in nodes.of(ast.keyword)) or (of_attributes and key in nodes.attributes):
        return True
    asked = {id(each.left) for each in nodes.of(ast.Compare) if isinstance(each.ops[0], ast.In | ast.NotIn)}
    for each in nodes.of(ast.Subscript, ast.Call):
        if is_looked_up(each, key):
            asked.add(id(each.slice if isinstance(each, ast.Subscript) else each.args[0]))
    return any(each.value == key and id(each) not in asked for each in nodes.of(ast.Constant))
