"""Options that a call leaves out which hands on the others under their own names, and takes them as parameters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from dllint.interp.source.effects import functions_of, name_where_defined
from dllint.interp.source.module import SourceModule
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import ancestors, enclosing_definition
from dllint.interp.source.trees import walk
from dllint.sites import Site

_RESTORING = frozenset(("load_from_checkpoint", "from_pretrained"))
_WRITING = re.compile(r"(?i)save|dump|log|write|record|print")
_LEAST = 3  # options that a call hands on, for it to be meant to have all that it takes


class LeftOut(NamedTuple):
    """A call of the function or class ``owner`` without an option that it takes a parameter for."""

    site: Site
    owner: str
    name: str


def left_out(
    name: str, module: SourceModule, reads: Sequence[ast.Attribute], others: Sequence[SourceModule]
) -> LeftOut | None:
    """Where an option is left out of a call that is meant to have it, if nothing else comes of it.

    It is only written down with the options that the call has, or given where the same class is made of a checkpoint,
    in the other arm of a branch.

    Args:
        name: the option, as the namespace and the parameter are called.
        module: the file with all places that read it.
        reads: these places.
        others: the files in which what is called may be defined.
    """
    scopes = {enclosing_definition(Site(module, node)) for node in reads}
    spaces = {ast.unparse(node.value) for node in reads}
    if len(scopes) != 1 or len(spaces) != 1:
        return None
    scope, space = scopes.pop() or module.tree, spaces.pop()
    for call in nodes_of(scope).of(ast.Call):
        handed = _handed_on(call, space)
        is_candidate = len(handed) >= _LEAST and name not in handed and not _may_give_more(call)
        if is_candidate and all(_is_beside(Site(module, node), name, call, space) for node in reads):
            owner = name_where_defined(module, call.func)
            defined = [each for other in others for each in functions_of(other, owner)]
            if defined and all(name in _optional(each) for each in defined):
                return LeftOut(Site(module, call), owner, name)
    return None


def _handed_on(call: ast.Call, space: str) -> set[str]:
    """The options that a call gets under their own names: ``epochs=args.epochs``."""
    return {each.arg for each in call.keywords if each.arg and ast.unparse(each.value) == f"{space}.{each.arg}"}


def _may_give_more(call: ast.Call) -> bool:
    return bool(call.args) or any(each.arg is None for each in call.keywords)


def _optional(function: ast.FunctionDef) -> set[str]:
    """The parameters of a function that have a default."""
    given = function.args
    ordered = [*given.posonlyargs, *given.args]
    by_name = zip(given.kwonlyargs, given.kw_defaults, strict=True)
    return {each.arg for each in ordered[len(ordered) - len(given.defaults) :]} | {
        each.arg for each, default in by_name if default is not None
    }


def _is_beside(read: Site, name: str, call: ast.Call, space: str) -> bool:
    """Whether a place only writes an option down, or gives it to the class of a call where that is restored."""
    outer = list(ancestors(read))
    if isinstance(outer[0], ast.keyword) and outer[0].arg == name and isinstance(outer[1], ast.Call):
        return _restores_same(Site(read.module, outer[1]), call, space)
    if not isinstance(outer[0], ast.Dict):
        return False
    written = {
        key.value
        for key, value in zip(outer[0].keys, outer[0].values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(key.value, str) and ast.unparse(value) == f"{space}.{key.value}"
    }
    is_same = name in written and len(written) >= _LEAST and written - {name} <= _handed_on(call, space)
    return is_same and _is_only_written(read, outer)


def _restores_same(restoring: Site, call: ast.Call, space: str) -> bool:
    """Whether a call makes the class that another one makes of a checkpoint, with the same options, in another arm."""
    other = restoring.node
    if (
        not isinstance(other, ast.Call)
        or not isinstance(other.func, ast.Attribute)
        or other.func.attr not in _RESTORING
    ):
        return False
    is_same = ast.unparse(other.func.value) == ast.unparse(call.func)
    if not is_same or not _handed_on(call, space) <= _handed_on(other, space):
        return False
    branches = (each for each in ancestors(restoring) if isinstance(each, ast.If))
    return any(_holds(arm, other) and _holds(rest, call) for each in branches for arm, rest in _arms(each))


def _arms(branch: ast.If) -> Iterator[tuple[list[ast.stmt], list[ast.stmt]]]:
    yield branch.body, branch.orelse
    yield branch.orelse, branch.body


def _holds(block: list[ast.stmt], wanted: ast.AST) -> bool:
    return any(node is wanted for each in block for node in walk(each))


def _is_only_written(read: Site, outer: Sequence[ast.AST]) -> bool:
    """Whether a dict that a place is in is only given to functions that write it, as their names say."""
    inner, around = next((a, b) for a, b in pairwise(outer) if not isinstance(b, ast.Dict))
    if not isinstance(around, ast.Assign) or around.value is not inner or not isinstance(around.targets[0], ast.Name):
        return _is_given_to_writer(around, outer)
    scope = enclosing_definition(read) or read.module.tree
    names = nodes_of(scope).names.get(around.targets[0].id, ())
    loads = [list(ancestors(Site(read.module, each))) for each in names if isinstance(each.ctx, ast.Load)]
    return bool(loads) and all(_is_given_to_writer(each[0], each) for each in loads)


def _is_given_to_writer(node: ast.AST, outer: Sequence[ast.AST]) -> bool:
    if isinstance(node, ast.keyword):
        node = outer[outer.index(node) + 1]
    return isinstance(node, ast.Call) and _WRITING.search(ast.unparse(node.func)) is not None
