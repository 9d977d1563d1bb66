"""What keeps a program from starting: files that it needs and that cannot be parsed, or that the project lacks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dllint.interp.source.bindings import Definition
from dllint.interp.source.imported import ALSO_KNOWN, KNOWN, prefixes
from dllint.interp.source.missing_names import lacks
from dllint.interp.source.trials import has_main_guard
from dllint.interp.source.unbound_names import needed_unbound

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

# The folders above a file are searched in any case, so that it tells nothing to append `../..`.
_OTHERWISE = r"|\baddsitedir\b|\b__path__\b|\bchdir\b|\bsys\.modules\b|\bgit clone\b|%%writefile\b"
_FOUND_ELSEWHERE = re.compile(r"\bsys\.path\b(?!\.(?:append|insert)\((?:\d+, *)?[\"'](?:\.\.?/?)+[\"']\))" + _OTHERWISE)
_OUTSIDE = re.compile(  # as above, but for the folders of the file or of who runs it, and those above
    r"\bsys\.path\b(?!\.(?:append|insert)\((?:\d+, *)?(?:(?:os|path|abspath|dirname|join|realpath|normpath|__file__"
    r"|Path|pathlib|parents?|str|resolve|absolute|as_posix|getcwd|curdir|pardir|cwd)\b|\[\d\]|[ .,/()]"
    r"|[\"']\.[./]*[\"'])+(?:#.*)?$)" + _OTHERWISE,
    re.MULTILINE,
)
_NOT_PUBLISHED = re.compile(  # compiled or generated files, and those that users have of their own
    r"_.*|.*_pb2(_grpc)?|version|cython_.*|.*_ext(ension)?|.*(creds|credentials?|secrets?|api_?keys?|private|local)"
)
_NAMING = ("requirements.txt", "pyproject.toml", "setup.py", "setup.cfg", "environment.yml", "environment.yaml",
           "Pipfile", ".gitmodules")  # fmt: skip

_LIBRARIES = KNOWN | ALSO_KNOWN
_OWN = frozenset((  # names of files that people have of their own, and no library has
    "arguments", "common", "config", "configs", "constants", "data", "data_loader", "data_utils", "dataloader",
    "dataloaders", "dataloading", "dataset", "dataset_utils", "eval", "evaluation", "helper", "helpers",
    "inference", "layers", "libs", "loss", "losses", "metric", "metrics", "model", "model_utils", "models",
    "modules", "my_utils", "myutils", "network", "networks", "optimizers", "options", "postprocess",
    "postprocessing", "postprocessor", "preprocess", "preprocessing", "preprocessor", "schedulers", "scripts",
    "solver", "test", "tools", "train", "train_utils", "trainer", "trainers", "training", "training_utils",
    "transforms", "util", "utility", "utils",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Obstacles:
    """What keeps a program from starting, of what its imports say.

    Attributes:
        broken: a file that it imports and that Python cannot parse.
        missing: the name of a module that the project should have, and lacks.
        refused: a name that it imports, and that the module of the project lacks.
        stray: what a file that it needs imports from beside itself, where Python does not look; and that file.
        unbound: a name that a file which it imports reads at its top, where nothing binds it; and that file.
        above: what it imports from a folder above its own, where Python does not look either.
    """

    broken: SourceModule | None
    missing: str
    refused: str
    stray: tuple[str, SourceModule] | None
    unbound: tuple[str, SourceModule] | None
    above: str

    @property
    def any(self) -> bool:
        """Whether the program certainly does not start."""
        return bool(self.broken or self.missing or self.refused or self.stray or self.unbound)


def obstacles(project: Project, module: SourceModule) -> Obstacles:
    """What keeps a program from starting."""
    return Obstacles(
        _broken_import(project, module),
        _missing_import(project, module),
        _refused_import(project, module),
        _stray_import(project, module),
        _unbound_name(project, module),
        _import_from_above(project, module),
    )


def _broken_import(project: Project, module: SourceModule) -> SourceModule | None:
    """A file without which a module cannot be imported, as its top level says, and that Python cannot parse."""
    for found in _needed_by(project, module):
        if _look_at(project, found).is_unparsable:
            return found
    return None


def _missing_import(project: Project, module: SourceModule) -> str:
    """A module of the project that a file needs to be imported, and that is not there; empty if there is none.

    It belongs to the project for certain: its name is a relative one, begins with a folder of the project, or is one
    that no library has. Of a tree that is but a part of a project, nothing can be said to be missing.
    """
    if not project.is_whole_around(module):
        return ""
    is_run = (module.is_script or has_main_guard(module)) and not project.sets_search_path
    for each in (module, *_needed_by(project, module)):
        is_outside = module.contains(_OUTSIDE) or each.contains(_OUTSIDE)
        is_elsewhere = module.contains(_FOUND_ELSEWHERE) or each.contains(_FOUND_ELSEWHERE)
        for name, level in _looked_for(project, each):
            parts = name.split(".") if name else []
            if (is_outside and not level) or project.find(each, name, level) is not None:
                continue
            is_beside = is_run and each is module and not is_elsewhere
            is_missing = _is_missing(project, each, parts, level, is_run=is_beside)
            if is_missing and not _is_left_out(project, parts):
                return "." * level + name
    return ""


def _looked_for(project: Project, module: SourceModule) -> Iterator[tuple[str, int]]:
    """The modules that a file imports at its top, and those that it imports from folders without `__init__.py`."""
    top = _look_at(project, module)
    yield from top.top_imports
    for name, level, wanted in top.top_names:
        if level or wanted == "*" or name not in _OWN or project.find(module, name) is not None:
            continue
        if any(_is_folder_of_modules(project, base / name) for base in project.search_path(module.folder)):
            yield f"{name}.{wanted}", 0


def _stray_import(project: Project, module: SourceModule) -> tuple[str, SourceModule] | None:
    """A module that a file which a script needs imports from beside itself, where Python does not look for it.

    Python looks in the folder of the script, and where packages are installed: ``import layers`` in ``models/net.py``
    finds ``models/layers.py`` only if the script is in ``models``, too. It did so in Python 2.

    Returns:
        What is imported, and the file that does so; ``None`` if all is found.
    """
    if not project.is_whole_around(module) or module.contains(_FOUND_ELSEWHERE) or project.sets_search_path:
        return None
    needed = list(_needed_by(project, module))
    if any(each.contains(_FOUND_ELSEWHERE) for each in needed):
        return None
    for each in needed:
        for name, level in _look_at(project, each).top_imports:
            if level or name.partition(".")[0] in _LIBRARIES or project.find(each, name) is None:
                continue
            if project.find(module, name) is None and not _is_left_out(project, name.split(".")):
                return name, each
    return None


def _unbound_name(project: Project, module: SourceModule) -> tuple[str, SourceModule] | None:
    """A name that a file which a program needs reads while it is imported, and that nothing binds; and that file."""
    if project.is_edited or not project.is_whole_around(module):
        return None
    for each in _needed_by(project, module):
        with project.glancing_at(each):
            name = needed_unbound(each)
        if name:
            return name, each
    return None


def _import_from_above(project: Project, module: SourceModule) -> str:
    """A module that a script imports from a folder above its own, in that of the project; empty if there is none.

    The folder of the project is where people stand who run ``python -m folder.script``, or which their editor adds.
    """
    is_run = has_main_guard(module) and not project.sets_search_path and project.is_whole_around(module)
    if not is_run or module.file.stem in project.scripts_run or module.contains(_FOUND_ELSEWHERE):
        return ""
    above = [folder for folder in module.folder.parents if project.root in folder.parents]
    for name, level in module.top_imports:
        found = None if level or name.partition(".")[0] in _LIBRARIES else project.find(module, name)
        if found is not None and _base_of(found, name) in above and not _is_left_out(project, name.split(".")):
            return name
    return ""


def _base_of(module: SourceModule, name: str) -> Path:
    """The folder in which Python looked when it found a module by its dotted name."""
    file = module.file.parent if module.is_package else module.file
    return file.parents[name.count(".")]


def _refused_import(project: Project, module: SourceModule) -> str:
    """``module.name`` that a file needs to be imported, and that its module certainly lacks; empty if there is none.

    A file hides a folder of its name that has no ``__init__.py``, and has no modules in it.
    """
    for each in (module, *_needed_by(project, module)):
        for name, level in _look_at(project, each).top_imports:
            if name.partition(".")[0] not in _LIBRARIES and _is_hidden(project, each, name, level):
                return "." * level + name
        for name, level, wanted in _look_at(project, each).top_names:
            found = project.find(each, name, level)
            if found is None or found is each or (not level and is_one_of_several(project, found)):
                continue
            if found.is_package and not project.is_whole_around(module):
                continue  # the name may be that of a module which is elsewhere
            with project.glancing_at(found):
                if lacks(project, found, wanted):
                    return f"{'.' * level}{name}.{wanted}"
    return ""


def _is_hidden(project: Project, importer: SourceModule, name: str, level: int) -> bool:
    """Whether a dotted name begins with that of a file, which has no modules in it."""
    head = name.rpartition(".")[0]
    hiding = project.find(importer, head, level) if head else None
    if hiding is None or hiding.is_package or hiding.contains(_FOUND_ELSEWHERE):
        return False
    return project.find(importer, name, level) is None and not is_one_of_several(project, hiding)


def needed_of_libraries(project: Project, module: SourceModule) -> Iterator[str]:
    """The dotted names of what a file needs of libraries to be imported: ``torch._six``, ``collections.Iterable``."""
    for each in (module, *_needed_by(project, module)):
        modules, names = _look_at(project, each).top_imports, each.top_names
        found = {name for name, level in modules if not level and project.find(each, name) is None}
        yield from found
        yield from (f"{name}.{wanted}" for name, level, wanted in names if not level and name in found)


def _needed_by(project: Project, module: SourceModule) -> Iterator[SourceModule]:
    """The project's modules that a file cannot be imported without, nearest first; packages before what is in them."""
    seen = {module.file}
    pending = [module]
    for each in pending:  # which grows meanwhile
        imports, names = _look_at(project, each).top_imports, each.top_names
        dotted = {(part, level): None for name, level in imports for part in prefixes(name)}
        dotted |= {(f"{name}.{wanted}".lstrip("."), level): None for name, level, wanted in names if wanted != "*"}
        for name, level in dotted:
            found = project.find(each, name, level)
            if found is not None and found.file not in seen:
                seen.add(found.file)
                pending.append(found)
                yield found


def _look_at(project: Project, module: SourceModule) -> SourceModule:
    """A file of which all that is asked here is known without its tree, which is made once for it."""
    with project.glancing_at(module):
        _ = module.is_unparsable, module.top_imports, module.top_names, module.top_level
    return module


def is_one_of_several(project: Project, module: SourceModule) -> bool:
    """Whether another file of the project has the same name and folder: which one is meant depends on the start."""
    tail = module.file.parts[-2:]
    return sum(file.parts[-2:] == tail for file in project.files) > 1


def _is_missing(
    project: Project, importer: SourceModule, parts: list[str], level: int, *, is_run: bool = False
) -> bool:
    """Whether nothing in the project can be what an import means, though the folder around it is there.

    A file that is run itself (``is_run``) looks beside it and above alone, not in folders of other scripts.
    """
    if not parts or _NOT_PUBLISHED.fullmatch(parts[-1]) or (not level and parts[0] in KNOWN):
        return False
    if level:
        bases: tuple[Path, ...] = ((importer.folder, *importer.folder.parents)[level - 1],)
        is_around = bases[0].is_relative_to(project.root)
    else:
        bases = project.search_path(importer.folder)
        is_around = (
            parts[0] in _OWN
            or (len(parts) > 1 and any(_is_folder_of_modules(project, base / parts[0]) for base in bases))
            or (is_run and _is_in_another_folder(project, importer, parts))
            or _is_renamed(project, parts)
        )
    if not is_around or any(_is_there(project, base, parts) for base in bases):
        return False
    return (is_run and len(parts) == 1) or not _is_further(project, parts)


def _is_in_another_folder(project: Project, importer: SourceModule, parts: list[str]) -> bool:
    """Whether a file of the project, in another folder, is what an import means: it defines all that is asked for."""
    size, wanted = len(parts), _wanted_of(importer, ".".join(parts))
    found = [file for file in project.files if list(file.with_suffix("").parts[-size:]) == parts]
    return any(_defines(project, file, wanted) for file in found if file != importer.file)


def _is_renamed(project: Project, parts: list[str]) -> bool:
    """Whether a package is a folder of the project by another name: files in it are all that is imported of it.

    In the folder of the project, whose name may be that of the package, all may be as it should.
    """
    package = parts[0]
    if len(parts) == 1 or package in _LIBRARIES or package == project.root.name:
        return False
    if project.text("setup.py") or project.text("pyproject.toml"):
        return False
    asked: dict[str, set[str]] = {}
    word = rf"\b{re.escape(package)}\b"
    for user in project.mentioning(re.compile(word), re.compile(rf"\b(?:from|import)\b.*{word}")):
        for name, level in _look_at(project, user).top_imports:
            if not level and name.partition(".")[0] == package:
                asked.setdefault(name, set()).update(_wanted_of(user, name))
    places = [set(_folders_with(project, name.split(".")[1:], wanted)) for name, wanted in asked.items()]
    common = set.intersection(*places) if len(places) > 1 else set()
    return bool(common) and project.root not in common


def _folders_with(project: Project, tail: list[str], wanted: set[str]) -> Iterator[Path]:
    """The folders in which a path leads to a file that defines all names, or to a folder with a file called so."""
    size = len(tail)
    for file in project.files if tail else ():
        path = file.with_suffix("").parts
        if list(path[-size:]) == tail and _defines(project, file, wanted):
            yield Path(*path[:-size])
        elif list(path[-size - 1 : -1]) == tail and path[-1] in wanted:
            yield Path(*path[: -size - 1])


def _wanted_of(importer: SourceModule, dotted: str) -> set[str]:
    """The names that a file imports at its top from a module."""
    return {name for module, level, name in importer.top_names if module == dotted and not level}


def _defines(project: Project, file: Path, wanted: set[str]) -> bool:
    """Whether a file has definitions of all names, of which there are some."""
    module = project.module(file) if wanted and "*" not in wanted else None
    if module is None or not wanted <= module.words:
        return False
    with project.glancing_at(module):
        bound = module.bindings.names
        return all(any(isinstance(each, Definition) for each in bound.get(name, ())) for name in wanted)


def _is_folder_of_modules(project: Project, folder: Path) -> bool:
    is_there = folder.name in project.names_in(folder.parent)
    return is_there and any(folder in file.parents for file in project.files)


def _is_there(project: Project, folder: Path, parts: list[str]) -> bool:
    """Whether there is a module, a folder or a file of any kind of this name, or a module in place of a folder."""
    for part in parts[:-1]:
        names = project.names_in(folder)
        if f"{part}.py" in names and part not in names:
            return True
        if part not in names:
            return False
        folder = folder / part
    return any(name == parts[-1] or name.startswith(f"{parts[-1]}.") for name in project.names_in(folder))


def _is_further(project: Project, parts: list[str]) -> bool:
    """Whether a module of this name is below another folder, which may be where programs are started."""
    size = len(parts)
    paths = (file.with_suffix("").parts for file in project.files)
    return any(list(path[-size:]) == parts or list(path[-size - 1 : -1]) == parts for path in paths)


def _is_left_out(project: Project, parts: list[str]) -> bool:
    """Whether git is told to leave a module or the folder around it out, or the name is that of a dependency."""
    ignored = {line.strip().strip("/").rpartition("/")[2] for line in project.text(".gitignore").splitlines()}
    if any(part in ignored or f"{part}.py" in ignored for part in parts):
        return True
    word = re.compile(rf"(?<![\w-]){re.escape(parts[0])}(?![\w-])")
    return any(word.search(project.text(name)) for name in _NAMING)
