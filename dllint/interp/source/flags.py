"""Flags of objects that are off by default, and that nothing in a project switches on: `Net(extra=False)`."""

from __future__ import annotations

import ast
import builtins
import re
from typing import TYPE_CHECKING

from dllint.interp.source.known_settings import default_of
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import ancestors
from dllint.sites import Site

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project


def is_never_on(project: Project, module: SourceModule, owner: ast.ClassDef, flag: str) -> bool:
    """Whether ``self.flag`` is `False` in all objects of a class: a parameter of its constructor, which nobody gives.

    Nothing passes it by its name or has that as a text, and no call of anything that may be the class has so many
    arguments. A class that others extend may get it from these.
    """
    constructor = next((each for each in owner.body if getattr(each, "name", "") == "__init__"), None)
    if not isinstance(constructor, ast.FunctionDef) or owner.decorator_list:
        return False
    name = _parameter_of(owner, constructor, flag)
    default = default_of(constructor.args, name) if name else None
    if not isinstance(default, ast.Constant) or default.value is not False:
        return False
    if project.is_noted(name) or any(project.notebooks_with(name)):
        return False
    names = [each.arg for each in (*constructor.args.posonlyargs, *constructor.args.args)]
    place = names.index(name) - 1 if name in names else None
    word = re.compile(rf"\b(?:{re.escape(name)}|{re.escape(flag)}|{re.escape(owner.name)})\b")
    users = list(project.mentioning(word))
    if any(not each.has_tree or _may_give(each, owner, {name, flag}) for each in project.reading_each(users)):
        return False
    if place is None:
        return True
    is_handed_on = any(_names_alone(each, owner.name) for each in project.reading_each(users))
    callers = project.mentioning() if is_handed_on else users
    each_caller = project.reading_each(callers)
    return not any(not each.has_tree or _reaches(each, owner.name, is_handed_on, place) for each in each_caller)


def _parameter_of(owner: ast.ClassDef, constructor: ast.FunctionDef, flag: str) -> str:
    """The parameter that a constructor keeps as an attribute, which nothing else in its class sets."""
    kept = [
        node for node in nodes_of(owner).of(ast.Attribute) if node.attr == flag and not isinstance(node.ctx, ast.Load)
    ]
    assigned = [each for each in nodes_of(constructor).of(ast.Assign) if any(each.targets[0] is node for node in kept)]
    value = assigned[0].value if len(kept) == len(assigned) == 1 else None
    bound = [node for node in nodes_of(constructor).of(ast.Name) if not isinstance(node.ctx, ast.Load)]
    is_own = isinstance(value, ast.Name) and value.id not in {node.id for node in bound}
    return value.id if is_own and isinstance(value, ast.Name) else ""


def _may_give(user: SourceModule, owner: ast.ClassDef, names: set[str]) -> bool:
    """Whether a file may switch a flag on: by a keyword, a text, an attribute of some object, or a class below."""
    nodes = nodes_of(user.tree)
    if any(each.arg in names for each in nodes.of(ast.keyword)):
        return True
    if any(
        isinstance(each.value, str) and each.value.lstrip("-").replace("-", "_") in names
        for each in nodes.of(ast.Constant)
    ):
        return True
    stored = (each for each in nodes.of(ast.Attribute) if each.attr in names and not isinstance(each.ctx, ast.Load))
    if any(not _is_own(user, each) for each in stored):
        return True
    bases = (base for each in nodes.of(ast.ClassDef) for base in each.bases)
    return any(getattr(base, "id", getattr(base, "attr", "")) == owner.name for base in bases)


def _is_own(user: SourceModule, node: ast.Attribute) -> bool:
    """Whether a method gives its own object an attribute."""
    is_in_class = any(isinstance(each, ast.ClassDef) for each in ancestors(Site(user, node)))
    return is_in_class and isinstance(node.value, ast.Name) and node.value.id == "self"


def _names_alone(user: SourceModule, name: str) -> bool:
    """Whether a file does something else with a name than to call it."""
    called = {id(call.func) for call in nodes_of(user.tree).of(ast.Call)}
    nodes = nodes_of(user.tree).of(ast.Name, ast.Attribute)
    return any(getattr(each, "id", getattr(each, "attr", "")) == name and id(each) not in called for each in nodes)


def _reaches(user: SourceModule, name: str, is_handed_on: bool, place: int) -> bool:
    """Whether a call of a class, or of what may be it in a variable, may have an argument at a place."""
    calls = [*user.calls.get(name, ())]
    if is_handed_on:
        nodes = nodes_of(user.tree)
        known = {each.name for each in nodes.of(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)}
        known |= {each.asname or each.name.partition(".")[0] for each in nodes.of(ast.alias)}
        calls += [call for call in nodes.of(ast.Call) if not _is_known(call.func, known)]
    return any(_has_many(call, place) for call in calls)


def _is_known(called: ast.expr, known: set[str]) -> bool:
    """Whether what is called is imported, defined in the file, or known to Python, rather than held by a variable."""
    names = [called.attr] if isinstance(called, ast.Attribute) else []
    while isinstance(called, ast.Attribute | ast.Subscript | ast.Call):
        called = called.func if isinstance(called, ast.Call) else called.value
    names += [called.id] if isinstance(called, ast.Name) else []
    return not known.isdisjoint(names) or hasattr(builtins, names[-1] if names else "")


def _has_many(call: ast.Call, place: int) -> bool:
    is_open = any(isinstance(each, ast.Starred) for each in call.args)
    return len(call.args) - is_open > place or (is_open and any(each.arg is None for each in call.keywords))
