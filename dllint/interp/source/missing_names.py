"""Imports that fail whenever a program starts: a file of the project is asked for a name that it does not have."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from dllint.sites import Site

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

_BOUND_OTHERWISE = re.compile(r"\b(globals|vars|locals|exec|setattr|__getattr__|sys\.modules|sys\.path)\b")


def failing_import(project: Project, module: SourceModule) -> Site | None:
    """The first import at the top of a file, or of one that this needs, of a name that is not there.

    Imports under conditions, in a ``try`` and of files that are not in the project may succeed.
    """
    seen = {module.file}
    pending = [module]
    for each in pending:  # which grows meanwhile
        for statement in each.tree.body:
            if not isinstance(statement, ast.ImportFrom):
                continue
            found = project.find(each, statement.module or "", statement.level)
            if found is None or found is each:
                continue
            if any(_is_missing(project, found, alias.name) for alias in statement.names):
                return Site(each, statement)
            if found.file not in seen:
                seen.add(found.file)
                pending.append(found)
    return None


def _is_missing(project: Project, module: SourceModule, name: str) -> bool:
    """Whether a module certainly has no such name: nothing binds it, and no file of its package is called so."""
    bindings = module.bindings
    if name == "*" or name.startswith("__") or name in bindings.names or bindings.stars or module.is_unparsable:
        return False
    if project.find_submodule(module, name) is not None or (module.file.parent / name).exists():
        return False
    return not module.contains(_BOUND_OTHERWISE)
