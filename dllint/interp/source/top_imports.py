"""What files import at their top, outside of any condition, and where Python finds that in a project."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from dllint.interp.source.imported import ALSO_KNOWN, KNOWN, prefixes

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

_NAMING = ("requirements.txt", "pyproject.toml", "setup.py", "setup.cfg", "environment.yml", "environment.yaml",
           "Pipfile", ".gitmodules")  # fmt: skip

_INSTALLING = ("setup.py", "setup.cfg", "pyproject.toml")  # which name what they install, too

LIBRARIES = KNOWN | ALSO_KNOWN


def needed_by(project: Project, module: SourceModule) -> Iterator[SourceModule]:
    """The project's modules that a file cannot be imported without, nearest first; packages before what is in them."""
    seen = {module.file}
    pending = [module]
    for each in pending:  # which grows meanwhile
        imports, names = look_at(project, each).top_imports, each.top_names
        dotted = {(part, level): None for name, level in imports for part in prefixes(name)}
        dotted |= {(f"{name}.{wanted}".lstrip("."), level): None for name, level, wanted in names if wanted != "*"}
        for name, level in dotted:
            found = project.find(each, name, level)
            if found is not None and found.file not in seen:
                seen.add(found.file)
                pending.append(found)
                yield found


def look_at(project: Project, module: SourceModule) -> SourceModule:
    """A file of which all that is asked here is known without its tree, which is made once for it."""
    with project.glancing_at(module):
        _ = module.is_unparsable, module.top_imports, module.top_names, module.top_level
    return module


def is_one_of_several(project: Project, module: SourceModule) -> bool:
    """Whether another file of the project has the same name and folder: which one is meant depends on the start."""
    tail = module.file.parts[-2:]
    return sum(file.parts[-2:] == tail for file in project.files) > 1


def base_of(module: SourceModule, name: str) -> Path:
    """The folder in which Python looked when it found a module by its dotted name."""
    file = module.file.parent if module.is_package else module.file
    return file.parents[name.count(".")]


def is_there(project: Project, folder: Path, parts: list[str]) -> bool:
    """Whether there is a module, a folder or a file of any kind of this name, or a module in place of a folder."""
    for part in parts[:-1]:
        names = project.names_in(folder)
        if f"{part}.py" in names and part not in names:
            return True
        if part not in names:
            return False
        folder = folder / part
    return any(name == parts[-1] or name.startswith(f"{parts[-1]}.") for name in project.names_in(folder))


def is_left_out(project: Project, parts: list[str]) -> bool:
    """Whether git is told to leave a module or the folder around it out, or the name is that of a dependency.

    A package at the root of the project that its own files for installation name is none: it is what they install. What
    they name of it may be compiled then.
    """
    ignored = {line.strip().strip("/").rpartition("/")[2] for line in project.text(".gitignore").splitlines()}
    if any(part in ignored or f"{part}.py" in ignored for part in parts):
        return True
    is_own = len(parts) > 1 and "__init__.py" in project.names_in(project.root / parts[0])
    own = re.compile(rf"(?<![\w-]){re.escape(parts[-1])}(?![\w-])")
    word = re.compile(rf"(?<![\w-]){re.escape(parts[0])}(?![\w-])")
    return any((own if is_own and name in _INSTALLING else word).search(project.text(name)) for name in _NAMING)
