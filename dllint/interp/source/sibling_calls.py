"""Calls of one method in both arms of a branch, as which object has it goes with the condition."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import ancestors
from dllint.sites import Site

if TYPE_CHECKING:
    from dllint.interp.source.project import Project

Binds = Callable[[ast.arguments, ast.Call], bool]


def goes_with_branch(project: Project, call: Site, method: ast.AST, binds: Binds) -> bool:
    """Whether a call that does not fit one class fits another one, and the other arm of a branch fits the first.

    ``if on_policy: self.brain.learn(a, b)`` and ``else: self.brain.learn(a)``: which of two classes the object is of is
    decided by the same setting.

    Args:
        project: where other classes are looked for.
        call: the call that does not fit.
        method: the method that it is taken to call.
        binds: whether the arguments of a call of a method fit its parameters.
    """
    node = call.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    if not isinstance(method, ast.FunctionDef) or not any(
        binds(method.args, each) for each in _calls_in_other_arms(call, ast.unparse(node.func))
    ):
        return False
    return any(each is not method and binds(each.args, node) for each in _methods_called(project, node.func.attr))


def _calls_in_other_arms(call: Site, called: str) -> Iterator[ast.Call]:
    """The calls of the same text in the other arms of the branches around a call."""
    inside: ast.AST = call.node
    for around in ancestors(call):
        if isinstance(around, ast.If) and inside is not around.test:
            other = around.orelse if inside in around.body else around.body
            for statement in other:
                yield from (each for each in nodes_of(statement).of(ast.Call) if ast.unparse(each.func) == called)
        inside = around


def _methods_called(project: Project, name: str) -> Iterator[ast.FunctionDef]:
    """The methods of a name that classes of the project have."""
    defines = re.compile(rf"\bdef {re.escape(name)}\b")
    for module in project.reading_each(project.mentioning(defines)):
        for cls in nodes_of(module.tree).of(ast.ClassDef) if module.has_tree else ():
            yield from (each for each in cls.body if isinstance(each, ast.FunctionDef) and each.name == name)
