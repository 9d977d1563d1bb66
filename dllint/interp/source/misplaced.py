"""Imports that fail although the project has what they are for: Python looks elsewhere, or finds something else."""

from __future__ import annotations

from collections.abc import Iterator, Set
from pathlib import Path
from typing import TYPE_CHECKING

from dllint.interp.source.imported import prefixes
from dllint.interp.source.missing_names import lacks
from dllint.interp.source.top_imports import (
    LIBRARIES,
    base_of,
    is_left_out,
    is_one_of_several,
    is_there,
    look_at,
    needed_by,
)
from dllint.interp.source.trials import has_main_guard

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

Added = Set[Path] | None  # the folders that a program puts on the search path; nothing where more may be on it


def refused_import(project: Project, module: SourceModule, added: Added) -> str:
    """``module.name`` that a file needs to be imported, and that its module certainly lacks; empty if there is none.

    A file hides a folder of its name that has no ``__init__.py``, and has no modules in it.
    """
    for each in (module, *needed_by(project, module)):
        for name, level in look_at(project, each).top_imports:
            if name.partition(".")[0] not in LIBRARIES and _is_hidden(project, each, name, level, added):
                return "." * level + name
        for name, level, wanted in look_at(project, each).top_names:
            found = project.find(each, name, level)
            if found is None or found is each or (not level and is_one_of_several(project, found)):
                continue
            if found.is_package and not project.is_whole_around(module):
                continue  # the name may be that of a module which is elsewhere
            if not level and _may_be_elsewhere(project, each, found, f"{name}.{wanted}"):
                continue
            with project.glancing_at(found):
                if lacks(project, found, wanted):
                    return f"{'.' * level}{name}.{wanted}"
    return ""


def _may_be_elsewhere(project: Project, importer: SourceModule, found: SourceModule, path: str) -> bool:
    """Whether Python may find something else by a path than what lies beside a file: `nets.nets` in `nets/net.py`.

    Started elsewhere, `from nets import nets` gets the module of the folder in which the file lies itself.
    """
    bases = (base for base in project.search_path(importer.folder) if base != base_of(found, path.rpartition(".")[0]))
    return any(is_there(project, base, path.split(".")) for base in bases)


def _is_hidden(project: Project, importer: SourceModule, name: str, level: int, added: Added) -> bool:
    """Whether a dotted name begins with that of a file, which has no modules in it."""
    head = name.rpartition(".")[0]
    hiding = project.find(importer, head, level) if head else None
    if hiding is None or hiding.is_package or added is None:
        return False
    return project.find(importer, name, level) is None and not is_one_of_several(project, hiding)


def stray_import(project: Project, module: SourceModule, added: Added) -> tuple[str, SourceModule] | None:
    """A module that a file which a script needs imports from beside itself, where Python does not look for it.

    Python looks in the folder of the script, and where packages are installed: ``import layers`` in ``models/net.py``
    finds ``models/layers.py`` only if the script is in ``models``, too. It did so in Python 2.

    Returns:
        What is imported, and the file that does so; ``None`` if all is found.
    """
    if added is None or not project.is_whole_around(module) or project.sets_search_path:
        return None
    around = project.search_path(module.folder)  # where it may also be a folder without `__init__.py`
    for each in needed_by(project, module):
        for name, level in look_at(project, each).top_imports:
            beside = project.find(each, name) if not level and name.partition(".")[0] not in LIBRARIES else None
            if beside is None:
                continue
            is_found = project.find(module, name) is not None or _is_in(project, added | {*around}, name)
            if not is_found and not is_left_out(project, name.split(".")):
                return name, each
    return None


def import_from_above(project: Project, module: SourceModule, added: Added) -> str:
    """A module that a script imports from a folder above its own, in that of the project; empty if there is none.

    The folder of the project is where people stand who run ``python -m folder.script``, or which their editor adds.
    """
    is_run = has_main_guard(module) and not project.sets_search_path and project.is_whole_around(module)
    if not is_run or module.file.stem in project.scripts_run or added is None:
        return ""
    above = [folder for folder in module.folder.parents if project.root in folder.parents and folder not in added]
    for name, level in module.top_imports:
        found = None if level or name.partition(".")[0] in LIBRARIES else project.find(module, name)
        if found is not None and base_of(found, name) in above and not is_left_out(project, name.split(".")):
            return name
    return ""


def import_from_beyond(project: Project, module: SourceModule, added: Added) -> tuple[str, str] | None:
    """A relative import that leads out of the package that its file is imported as a part of.

    ``import data.sets`` makes ``data`` the outermost package, and ``from ..tools import x`` fails in ``data/sets.py``.

    Returns:
        The dotted name by which the file is imported, and what it imports; ``None`` if there is no such thing.
    """
    pending = list(_imported_as(project, module, "")) if added is not None else []
    for found, dotted in pending:  # which grows meanwhile
        package = dotted if found.is_package else dotted.rpartition(".")[0]
        depth = len(package.split(".")) if package else 0
        for name, level in look_at(project, found).top_imports:
            if level > depth:
                return dotted, "." * level + name
        pending += [each for each in _imported_as(project, found, package) if each not in pending]
    return None


def _imported_as(project: Project, importer: SourceModule, package: str) -> Iterator[tuple[SourceModule, str]]:
    """The modules of the project that a file needs, with their dotted names, as it calls them from its package."""
    top = look_at(project, importer)
    names = [*top.top_imports, *((f"{name}.{wanted}".lstrip("."), level) for name, level, wanted in top.top_names)]
    for name, level in names:
        if (level and not package) or name.partition(".")[0] in LIBRARIES:
            continue
        inside = package.split(".")[: len(package.split(".")) - level + 1] if level else []
        for part in prefixes(name) if name else ():
            found = project.find(importer, part, level)
            if found is not None and (level or _is_the_only_one(project, importer, found, part)):
                yield found, ".".join((*inside, part))


def _is_the_only_one(project: Project, importer: SourceModule, found: SourceModule, name: str) -> bool:
    """Whether nothing else in the project is what an absolute import may mean, from wherever it is started."""
    places = (base for base in project.search_path(importer.folder) if is_there(project, base, name.split(".")))
    return len(list(places)) == 1 and not is_one_of_several(project, found)


def shadowed_import(project: Project, module: SourceModule, added: Added) -> str:
    """``module.name`` that a file imports from beside itself, while Python finds another module of this name first.

    It is in the folder of the script, or above, and lacks the name. Empty if there is none.
    """
    if added is None or project.sets_search_path or not project.is_whole_around(module):
        return ""
    bases = {*project.search_path(module.folder), *added}
    for each in needed_by(project, module):
        for name, level, wanted in look_at(project, each).top_names:
            if level or name.partition(".")[0] in LIBRARIES:
                continue
            own, found = project.find(each, name), project.find(module, name)
            if found is None or own is None or found.file == own.file:
                continue
            if sum(is_there(project, base, name.split(".")) for base in bases) > 1:
                continue
            with project.glancing_at(found):
                if lacks(project, found, wanted):
                    return f"{name}.{wanted}"
    return ""


def _is_in(project: Project, folders: Set[Path], name: str) -> bool:
    """Whether a module is found by its dotted name in one of some folders."""
    return any(is_there(project, folder, name.split(".")) for folder in folders)
