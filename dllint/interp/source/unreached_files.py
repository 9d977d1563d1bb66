"""Files that only files import to which nothing leads, or none: the part of a copied library that no script uses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dllint.interp.source.imported_by_name import may_be_imported_by_name
from dllint.interp.source.trials import defines_only

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

PACKAGING = frozenset(("setup.py", "setup.cfg", "pyproject.toml"))
_FROM_LIBRARY = re.compile(r"\s*from (?:torch|torchvision|torchaudio|numpy|scipy|transformers|PIL)[\w.]* import\b")
_LOOKED_FOR = re.compile(r"test_.*|.*_tests?|tests?|conftest|hubconf|setup")  # by tools


def may_mean(module: SourceModule, name: str) -> bool:
    """Whether a file may mean another one by a name: it imports what is called so, but not from a library, or has it in
    a text. Variables and attributes of that name mean no file."""
    word = rf"\b{re.escape(name)}\b"
    meant = re.compile(rf"\bimport\b.*{word}|{word}.*\bimport\b|['\"][^'\"]*{word}|^[\w\s,()]*{word}[\w\s,()]*$")
    lines = (line for line in module.source.text.split("\n") if name in line and not line.lstrip().startswith("#"))
    return any(meant.search(line) and not _FROM_LIBRARY.match(line) for line in lines)


def leads_nowhere(project: Project, module: SourceModule) -> bool:
    """Whether all files that import a file, directly or not, do nothing when they are run, and nothing else has them.

    Packages count: their own imports are run if something imports any file of theirs. What is packaged is for others.
    """
    folders = (folder for folder in module.file.parents if folder.is_relative_to(project.root))
    if any(not PACKAGING.isdisjoint(project.names_in(folder)) for folder in folders):
        return False
    modules = list(project.mentioning())
    seen = {module.file}
    pending = [module]
    while pending:
        each = pending.pop()
        if _is_begun(project, each) or may_be_imported_by_name(each, modules, lambda: True):
            return False
        for user in _users(project, each, modules):
            if user.file not in seen:
                seen.add(user.file)
                pending.append(user)
    return len(seen) > 1


def _users(project: Project, module: SourceModule, modules: list[SourceModule]) -> Iterator[SourceModule]:
    """The files that import a file; those in a package do so with its own."""
    folder = module.file.parent
    for each in modules:
        is_inside = module.is_package and each.file.is_relative_to(folder)
        if each.file != module.file and (is_inside or module in project.imported_by(each)):
            yield each


def _is_begun(project: Project, module: SourceModule) -> bool:
    """Whether a file does something by itself, or a command, a notebook, a configuration or a tool gets at it."""
    if not module.has_tree or module.source.has_cells or not defines_only(module):
        return True
    name = module.file.parent.name if module.is_package else module.file.stem
    return (
        name in project.scripts_run
        or _LOOKED_FOR.fullmatch(name) is not None
        or project.is_configured(name, with_path=True)
        or any(project.notebooks_with(name))
    )
