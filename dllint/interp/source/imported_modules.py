"""Which modules of the project a file imports, judged by its text: too many rather than too few; and for certain."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from dllint.interp.source.imported import prefixes
from dllint.interp.source.nodes import nodes_of
from dllint.sites import Site

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

_BY_NAME = re.compile(r"\b(import_module|__import__|exec|run_path|run_module)\b")
_IMPORT = re.compile(r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import\b|import[ \t]+([\w., \t]+))", re.MULTILINE)


def imported_modules(project: Project, module: SourceModule) -> Iterator[SourceModule]:
    """The modules that a file imports, some of them more than once; any of its words might be that of a submodule."""
    for match in _IMPORT.finditer(module.source.text):
        origin, plain = match.groups()
        if plain is not None:
            for part in plain.split(","):
                yield from _with_parents(project, module, part.split(" as ")[0].strip(), 0)
        else:
            dotted = origin.lstrip(".")
            level = len(origin) - len(dotted)
            yield from _with_parents(project, module, dotted, level)
            yield from _possible_submodules(project, module, dotted, level)


def is_imported(project: Project, user: SourceModule, module: SourceModule) -> bool:
    """Whether the import statements of a file lead to a module, or to a package that imports it.

    What may be imported by a name that is computed, and files that cannot be parsed, count as well.
    """
    if user.contains(_BY_NAME):
        return True
    with project.glancing_at(user):
        if user.parse_error is not None:
            return True
        named = set(_named_in(user.tree))
    found = {project.find(user, name, level) for name, level in named} - {None, user}
    return any(each is module or (each.is_package and module in project.closure(each)) for each in found if each)


def _named_in(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """The dotted names, with their levels, that may be those of modules in the import statements of a file."""
    for node in nodes_of(tree).of(ast.Import, ast.ImportFrom):
        if isinstance(node, ast.Import):
            yield from ((part, 0) for each in node.names for part in prefixes(each.name))
        elif isinstance(node, ast.ImportFrom):
            origin = node.module or ""
            yield from ((part, node.level) for part in prefixes(origin) if origin)
            yield from ((f"{origin}.{each.name}".lstrip("."), node.level) for each in node.names if each.name != "*")


def _with_parents(project: Project, module: SourceModule, name: str, level: int) -> Iterator[SourceModule]:
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        found = project.find(module, ".".join(parts[:count]), level)
        if found is not None:
            yield found


def _possible_submodules(project: Project, module: SourceModule, name: str, level: int) -> Iterator[SourceModule]:
    package = project.find(module, name, level)
    if package is None:
        importable = _importable_from_folder(project, module, name, level)
    elif package.is_package:
        importable = project.importable_in(package.folder)
    else:
        return
    for stem in importable & module.words:
        found = project.find(module, f"{name}.{stem}" if name else stem, level)
        if found is not None:
            yield found


def _importable_from_folder(project: Project, module: SourceModule, name: str, level: int) -> frozenset[str]:
    """What can be imported from a folder without ``__init__.py`` that is imported as a package."""
    parts = name.split(".") if name else []
    bases = project.search_path(module.file.parent) if not level else (module.file.parents[level - 1],)
    for base in bases:
        folder = base.joinpath(*parts)
        if project.names_in(folder):
            return project.importable_in(folder)
    return frozenset()


def calls_of(name: str, modules: Iterable[tuple[SourceModule, ast.Module]]) -> Iterator[Site]:
    """The calls in some files of what has a name, by this name or as it is imported there."""
    for module, tree in modules:
        imported = (alias for each in nodes_of(tree).of(ast.ImportFrom) for alias in each.names if alias.name == name)
        for called in {name, *(alias.asname for alias in imported if alias.asname)}:
            yield from (Site(module, node) for node in module.calls.get(called, ()))
