"""Files that a project imports by names which it computes: `import_module(f"models.{name}")`."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from dllint.interp.source.known_settings import last_name
from dllint.interp.source.nodes import nodes_of
from dllint.interp.source.positions import enclosing_definition
from dllint.sites import Site

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

_OF_ANY_NAME = re.compile(r"\brunpy\b|\bspec_from_file_location\(")
_BY_NAME = re.compile(rf"\bimport_module\(|\b__import__\(|{_OF_ANY_NAME.pattern}")
_IMPORTS = ("import_module", "__import__")


def may_be_imported_by_name(module: SourceModule, modules: Iterable[SourceModule], is_told: Callable[[], bool]) -> bool:
    """Whether some file may import another by a name that it computes, as far as it says how that name begins.

    Where it does not say that, it may be any file in its folder or below that, and any other whose name is told.

    Args:
        module: the file in question.
        modules: all files of its project.
        is_told: whether something in the project has the name of the file.
    """
    folders = (part.lower() for part in (*module.file.parent.parts, module.file.stem))
    path = ".".join(folders) + "."
    for each in modules:
        for start in (start.lower().lstrip(".") for start in _starts_in(each)):
            if start and f".{start}" in path:
                return True
            if not start and (module.file.is_relative_to(each.file.parent) or is_told()):
                return True
    return False


def _starts_in(module: SourceModule) -> Iterator[str]:
    """How the names of modules begin that a file imports by name: with all of a name there is a dot at its end."""
    if not module.contains(_BY_NAME):
        return
    calls = [call for name in _IMPORTS for call in module.calls.get(name, ()) if last_name(call.func) == name]
    if not calls or module.contains(_OF_ANY_NAME):
        yield ""  # from a path, or by a function that is handed on
    yield from (_start_of(_assigned(call, module)) if call.args else "" for call in calls)


def files_imported(module: SourceModule, project: Project) -> list[SourceModule] | None:
    """The files that a file may import by names which it computes; ``None`` where it does not say of which package of
    the project they are (`import_module("models." + name)`), or where it may run others.
    """
    found: list[SourceModule] = []
    for start in dict.fromkeys(_starts_in(module)) or [""]:
        level = len(start) - len(start.lstrip("."))
        package = start[level:].rpartition(".")[0]
        folder = project.find(module, package, level) if package or level else None
        if folder is None or not folder.is_package:
            return None
        below = (file for file in project.files if file.is_relative_to(folder.file.parent))
        found.extend(each for each in map(project.module, below) if each is not None)
    return found


def _assigned(call: ast.Call, module: SourceModule) -> ast.expr:
    """What a call gets first, or what is assigned to that variable, once and in the same function."""
    name = call.args[0]
    around = enclosing_definition(Site(module, call))
    if not isinstance(name, ast.Name) or around is None:
        return name
    stored = [each for each in nodes_of(around).names.get(name.id, ()) if not isinstance(each.ctx, ast.Load)]
    given = [each.value for each in nodes_of(around).of(ast.Assign) if each.targets == stored]
    return given[0] if len(given) == 1 else name


def _start_of(name: ast.expr) -> str:
    """The text that an expression begins with, as far as it is written; with a dot at its end if that is all."""
    if isinstance(name, ast.Constant) and isinstance(name.value, str):
        return f"{name.value}."
    if isinstance(name, ast.JoinedStr):
        first = name.values[0] if name.values else None
        start = str(first.value) if isinstance(first, ast.Constant) else ""
        return f"{start}." if len(name.values) == 1 else start
    if isinstance(name, ast.BinOp) and isinstance(name.op, ast.Add):
        return _start_of(name.left).removesuffix(".") if isinstance(name.left, ast.Constant) else _start_of(name.left)
    if isinstance(name, ast.Call) and last_name(name.func) == "format" and isinstance(name.func, ast.Attribute):
        return _start_of(name.func.value).partition("{")[0]
    return ""
