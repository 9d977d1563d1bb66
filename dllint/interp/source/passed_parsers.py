"""Which files take a parser of the command line, or what asks one, from the file that has it."""

from __future__ import annotations

import ast
from collections.abc import Set
from typing import TYPE_CHECKING

from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.only_parsing import PARSING
from dllint.interp.source.trials import is_main_guard

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

_OF_PARSERS = frozenset(("ArgumentParser", "add_argument", *PARSING))


def takes_parser(project: Project, module: SourceModule, where: SourceModule) -> bool:
    """Whether a file imports a name of another one behind which a parser is: the class of its options, a function.

    What a file only parses where it is run itself is taken by nobody.

    Args:
        project: where imports are looked up.
        module: the file that imports.
        where: the file with the parser.
    """
    offered = {"*", *_names_with_parsers(where)}
    nodes = nodes_of(module.tree)
    if any(project.find(module, alias.name) is where for each in nodes.of(ast.Import) for alias in each.names):
        return True
    for statement in nodes.of(ast.ImportFrom):
        origin = project.find(module, statement.module or "", statement.level)
        names = [alias.name for alias in statement.names]
        if origin is where and not offered.isdisjoint(names):
            return True
        if origin is not None and any(project.find_submodule(origin, name) is where for name in names):
            return True
    return False


def _names_with_parsers(module: SourceModule) -> Set[str]:
    """The names at the top of a file behind which a parser is, or what another such name says of it."""
    tops = {name: [each for each in made if not is_main_guard(each)] for name, made in module.bindings.names.items()}
    found: set[str] = set()
    while more := {
        name
        for name, made in tops.items()
        if name not in found and any(_mentions(each, _OF_PARSERS | found) for each in made)
    }:
        found |= more
    return found


def _mentions(statement: ast.stmt, names: Set[str]) -> bool:
    nodes = nodes_of(statement)
    is_import = isinstance(statement, ast.Import | ast.ImportFrom)
    return not is_import and not names.isdisjoint((*nodes.names, *nodes.attributes))
