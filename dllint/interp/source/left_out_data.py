"""Data for evaluation that is made beside data for training, and that nothing reads."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.phases import phases_in, without_phase
from dllint.interp.source.positions import ancestors, enclosing_definition
from dllint.interp.source.topics import speaks_of
from dllint.sites import Site

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

_FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
_GLANCES = frozenset(("len", "print"))  # what they are given is only looked at
_NAMESPACES = frozenset(("locals", "globals", "vars", "eval", "exec"))
_TOPICS = ("validation-set", "test-set")


def counterparts(name: str, names: Iterable[str], purpose: str) -> list[str]:
    """The names for evaluation that otherwise equal one for training, `train_set`, most fitting a purpose first.

    Where some are for just what the purpose says, as `val_set` is for a `val_loader`, the others are left out.
    """
    rest = without_phase(name)
    beside = sorted({each for each in names if _is_for_evaluation(each) and without_phase(each) == rest})
    topics = [topic for topic in _TOPICS if speaks_of(topic, purpose)]
    fitting = [each for each in beside if any(speaks_of(topic, each) for topic in topics)]
    return fitting or beside


def _is_for_evaluation(name: str) -> bool:
    return phases_in(name) == ["evaluation"]


def unread_variable(read: ast.Name, module: SourceModule, purpose: str, project: Project) -> Site | None:
    """Where the counterpart of a variable for training gets its value, if nothing else is ever done with it."""
    around = enclosing_definition(Site(module, read))
    scope = around if isinstance(around, _FUNCTIONS) and read.id in _bound_in(around) else module.tree
    bound = _bound_in(scope)
    if not _tells_all(scope):
        return None
    for name in counterparts(read.id, bound, purpose):
        is_read = any(_is_read(each, module) for each in nodes_of(scope).names.get(name, ()))
        told = scope is module.tree and _is_told(name, module, project)
        if not is_read and not told:
            return Site(module, bound[name])
    return None


def _bound_in(scope: ast.AST) -> Mapping[str, ast.AST]:
    """The variables of a function or module, and its parameters, each with a place where it gets a value."""
    found: dict[str, ast.AST] = {}
    if isinstance(scope, _FUNCTIONS):
        given = (*scope.args.posonlyargs, *scope.args.args, *scope.args.kwonlyargs)
        found.update((each.arg, each) for each in given)
    for name, places in nodes_of(scope).names.items():
        stored = [each for each in places if isinstance(each.ctx, ast.Store)]
        own = (each for each in stored if not isinstance(scope, ast.Module) or _is_at_top(each, scope))
        place = next(own, None)
        if place is not None:
            found[name] = place
    return found


def _is_at_top(node: ast.Name, tree: ast.Module) -> bool:
    inner = (each for each in tree.body if isinstance(each, _FUNCTIONS | ast.ClassDef))
    return not any(each.lineno <= node.lineno <= (each.end_lineno or each.lineno) for each in inner)


def _tells_all(scope: ast.AST) -> bool:
    """Whether a variable can only be read by its name."""
    nodes = nodes_of(scope)
    return not any(nodes.names.get(name) for name in _NAMESPACES) and not nodes.of(ast.Global, ast.Nonlocal)


def _is_read(node: ast.Name | ast.Attribute, module: SourceModule) -> bool:
    if not isinstance(node.ctx, ast.Load):
        return not isinstance(node.ctx, ast.Store) or _is_added_to(node, module)
    return not _is_only_looked_at(Site(module, node))


def _is_added_to(node: ast.AST, module: SourceModule) -> bool:
    return isinstance(next(ancestors(Site(module, node)), None), ast.AugAssign)


def _is_only_looked_at(place: Site) -> bool:
    """Whether something is counted or printed, and nothing else: `len(val_set)`, `print(f"{len(val_set)} samples")`."""
    for outer in ancestors(place):
        if isinstance(outer, ast.Call) and isinstance(outer.func, ast.Name) and outer.func.id in _GLANCES:
            return True
        if not isinstance(outer, ast.Attribute | ast.JoinedStr | ast.FormattedValue):
            return False
    return False


def _is_told(name: str, module: SourceModule, project: Project) -> bool:
    """Whether another file may read a variable of a module, or a text names it."""
    if any(text.value == name for text in nodes_of(module.tree).of(ast.Constant)):
        return True
    word = re.compile(rf"\b{re.escape(name)}\b")
    others = [each for each in project.mentioning(word) if each is not module and each.has_tree]
    return any(_asks_for(name, module.file.stem, each) for each in project.reading_each(others))


def _asks_for(name: str, stem: str, other: SourceModule) -> bool:
    nodes = nodes_of(other.tree)
    imports = (each for each in nodes.of(ast.ImportFrom) if (each.module or "").rpartition(".")[2] in (stem, ""))
    is_imported = any(alias.name in (name, "*") for each in imports for alias in each.names)
    reads = (each.value for each in nodes.attributes.get(name, ()) if isinstance(each.ctx, ast.Load))
    return is_imported or any(isinstance(each, ast.Name) and each.id != "self" for each in reads)


def kept_attributes(classes: Iterable[ast.ClassDef]) -> Mapping[str, ast.Attribute]:
    """The attributes that the methods of some classes give to their object, each with a place."""
    stored = (
        each
        for node in classes
        for each in nodes_of(node).of(ast.Attribute)
        if isinstance(each.ctx, ast.Store) and isinstance(each.value, ast.Name) and each.value.id == "self"
    )
    return {each.attr: each for each in stored}


def methods_reading(name: str, classes: Iterable[ast.ClassDef]) -> Iterator[str]:
    """The names of the methods of some classes that read an attribute of their object."""
    for node in classes:
        for method in node.body:
            found = nodes_of(method).attributes.get(name, ()) if isinstance(method, _FUNCTIONS) else ()
            if isinstance(method, _FUNCTIONS) and any(isinstance(each.ctx, ast.Load) for each in found):
                yield method.name
