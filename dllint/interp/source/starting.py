"""What keeps a program from starting: files that it needs and that cannot be parsed, or that the project lacks."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from dllint.dataclass import dataclass
from dllint.interp.source.bindings import Definition
from dllint.interp.source.ending import ends_when_imported
from dllint.interp.source.imported import KNOWN
from dllint.interp.source.misplaced import (
    Added,
    import_from_above,
    import_from_beyond,
    refused_import,
    shadowed_import,
    stray_import,
)
from dllint.interp.source.path_changes import added_folders, changes_search_path
from dllint.interp.source.top_imports import LIBRARIES, is_left_out, is_there, look_at, needed_by
from dllint.interp.source.trials import has_main_guard, is_main_guard
from dllint.interp.source.unbound_names import needed_unbound

if TYPE_CHECKING:
    from dllint.interp.source.module import SourceModule
    from dllint.interp.source.project import Project

_NOT_PUBLISHED = re.compile(  # compiled or generated files, and those that users have of their own
    r"_.*|.*_pb2(_grpc)?|version|cython_.*|.*_ext(ension)?|.*(creds|credentials?|secrets?|api_?keys?|private|local)"
)

_CLASS = re.compile(r"([A-Z]+[a-z0-9]+){2,}[A-Z]*")  # two words at least: what only one project calls so

_OWN = frozenset((  # names of files that people have of their own, and no library has
    "arguments", "common", "config", "configs", "constants", "data", "data_loader", "data_utils", "dataloader",
    "dataloaders", "dataloading", "dataset", "dataset_utils", "eval", "evaluation", "helper", "helpers",
    "inference", "layers", "libs", "loss", "losses", "metric", "metrics", "model", "model_utils", "models",
    "modules", "my_utils", "myutils", "network", "networks", "optimizers", "options", "postprocess",
    "postprocessing", "postprocessor", "preprocess", "preprocessing", "preprocessor", "schedulers", "scripts",
    "solver", "test", "tools", "train", "train_utils", "trainer", "trainers", "training", "training_utils",
    "transforms", "util", "utility", "utils",
))  # fmt: skip
_MY = re.compile(r"^my_?")  # `my_dataset`, `mymodel`
_VERSION = re.compile(r"_?v?\d+$|_(?:new|old|final|copy|latest)$")  # at the end of a name: `dataset_v2`


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
        beyond: how a file is imported, and the relative import in it that leads out of its outermost package.
        ending: a file that it imports and that exits, or raises an error, when it is imported.
    """

    broken: SourceModule | None
    missing: str
    refused: str
    stray: tuple[str, SourceModule] | None
    unbound: tuple[str, SourceModule] | None
    above: str
    beyond: tuple[str, str] | None
    ending: SourceModule | None

    @property
    def any(self) -> bool:
        """Whether the program certainly does not start."""
        return bool(self.broken or self.is_lacking or self.stray or self.unbound or self.beyond or self.ending)

    @property
    def is_lacking(self) -> bool:
        """Whether it imports what the project certainly does not have."""
        return bool(self.missing or self.refused)


@dataclass(frozen=True, slots=True)
class _Start:
    """How a program is started: the folders that it puts on the search path, whether the importing file is run itself,
    and whether this says where to look."""

    added: Collection[Path]
    is_run: bool
    says_where: bool


def obstacles(project: Project, module: SourceModule) -> Obstacles:
    """What keeps a program from starting."""
    added = added_folders(project, module)
    return Obstacles(
        _broken_import(project, module),
        _missing_import(project, module, added),
        refused_import(project, module, added) or shadowed_import(project, module, added),
        stray_import(project, module, added),
        _unbound_name(project, module),
        import_from_above(project, module, added),
        import_from_beyond(project, module, added),
        _ending_import(project, module),
    )


def _broken_import(project: Project, module: SourceModule) -> SourceModule | None:
    """A file without which a module cannot be imported, as its top level says, and that Python cannot parse."""
    for found in needed_by(project, module):
        if look_at(project, found).is_unparsable:
            return found
    return None


def _ending_import(project: Project, module: SourceModule) -> SourceModule | None:
    """A file that a module imports at its top, and that ends the run when it is imported."""
    if project.is_edited:
        return None
    for found in needed_by(project, module):
        with project.glancing_at(found):
            if ends_when_imported(found):
                return found
    return None


def _missing_import(project: Project, module: SourceModule, added: Added) -> str:
    """A module of the project that a file needs to be imported, and that is not there; empty if there is none.

    It belongs to the project for certain: its name is a relative one, begins with a folder of the project, or is one
    that no library has. Of a tree that is but a part of a project, nothing can be said to be missing.
    """
    if not project.is_whole_around(module):
        return ""
    is_run = (module.is_script or has_main_guard(module)) and not project.sets_search_path and added is not None
    says_where = is_run and changes_search_path(module)
    for each in (module, *needed_by(project, module)):
        asked = chain(_looked_for(project, each), _imported_in_main(project, each) if each is module else ())
        for name, level in asked:
            parts = name.split(".") if name else []
            if (added is None and not level) or project.find(each, name, level) is not None:
                continue
            start = _Start(added or (), is_run=is_run and each is module, says_where=says_where)
            if _is_missing(project, each, parts, level, start) and not is_left_out(project, parts):
                return "." * level + name
    return ""


def _looked_for(project: Project, module: SourceModule) -> Iterator[tuple[str, int]]:
    """The modules that a file imports at its top, and those that it imports from folders without `__init__.py`."""
    top = look_at(project, module)
    yield from top.top_imports
    for name, level, wanted in top.top_names:
        if level or wanted == "*" or name not in _OWN or project.find(module, name) is not None:
            continue
        if any(_is_folder_of_modules(project, base / name) for base in project.search_path(module.folder)):
            yield f"{name}.{wanted}", 0


def _imported_in_main(project: Project, module: SourceModule) -> Iterator[tuple[str, int]]:
    """The modules that a file imports below its main guard, outside of any other condition."""
    if not has_main_guard(module):
        return
    with project.glancing_at(module):
        guarded = [each.body for each in module.tree.body if isinstance(each, ast.If) and is_main_guard(each)]
        for statement in chain.from_iterable(guarded):
            if isinstance(statement, ast.Import):
                yield from ((alias.name, 0) for alias in statement.names)
            elif isinstance(statement, ast.ImportFrom):
                yield statement.module or "", statement.level


def _unbound_name(project: Project, module: SourceModule) -> tuple[str, SourceModule] | None:
    """A name that a file which a program needs reads while it is imported, and that nothing binds; and that file."""
    if project.is_edited or not project.is_whole_around(module):
        return None
    for each in needed_by(project, module):
        with project.glancing_at(each):
            name = needed_unbound(each)
        if name:
            return name, each
    return None


def needed_of_libraries(project: Project, module: SourceModule) -> Iterator[str]:
    """The dotted names of what a file needs of libraries to be imported: ``torch._six``, ``collections.Iterable``."""
    for each in (module, *needed_by(project, module)):
        modules, names = look_at(project, each).top_imports, each.top_names
        found = {name for name, level in modules if not level and project.find(each, name) is None}
        yield from found
        yield from (f"{name}.{wanted}" for name, level, wanted in names if not level and name in found)


def _is_missing(project: Project, importer: SourceModule, parts: list[str], level: int, start: _Start) -> bool:
    """Whether nothing in the project can be what an import means, though the folder around it is there.

    A relative import looks in one place, a file that is run itself beside it and above alone, not in folders of other
    scripts. So does all that it needs if it says where to look. What belongs to a package is looked for elsewhere, but
    not by a script in a folder of its own beside which the package lies.
    """
    if not parts or _NOT_PUBLISHED.fullmatch(parts[-1]) or (not level and parts[0] in KNOWN):
        return False
    if level:
        bases: tuple[Path, ...] = ((importer.folder, *importer.folder.parents)[level - 1],)
        is_around = bases[0].is_relative_to(project.root)
    else:
        bases = (*project.search_path(importer.folder), *start.added)
        is_around = (
            _is_own(parts[0])
            or (len(parts) > 1 and any(_is_folder_of_modules(project, base / parts[0]) for base in bases))
            or (start.is_run and _is_in_another_folder(project, importer, parts))
            or any(_is_in_other_letters(project, base, parts, importer) for base in bases)
            or _is_renamed(project, parts)
            or _is_one_of_several(project, importer, parts)
            or _is_beside_by_another_name(project, importer, parts)
        )
    if not is_around or any(is_there(project, base, parts) for base in bases):
        return False
    if level:
        return True
    is_own = importer.folder != project.root and _is_folder_of_modules(project, importer.folder / parts[0])
    is_told = start.says_where or (start.is_run and (len(parts) == 1 or is_own))
    return is_told or not _is_further(project, parts, _wanted_of(importer, ".".join(parts)))


def _is_in_another_folder(project: Project, importer: SourceModule, parts: list[str]) -> bool:
    """Whether a file of the project, in another folder, is what an import means: it defines all that is asked for."""
    size, wanted = len(parts), _wanted_of(importer, ".".join(parts))
    found = [file for file in project.files if list(file.with_suffix("").parts[-size:]) == parts]
    return any(_defines(project, file, wanted) for file in found if file != importer.file)


def _is_own(name: str) -> bool:
    """Whether a module is called as people call files of their own, and no library is."""
    return name in _OWN or (name not in LIBRARIES and _MY.sub("", name, count=1) in _OWN)


def _is_one_of_several(project: Project, importer: SourceModule, parts: list[str]) -> bool:
    """Whether a file beside begins with the same word, and the name is none that libraries have: `Trainer_small`."""
    first, _, rest = parts[0].partition("_")
    if len(parts) > 1 or not rest or parts[0].islower() or parts[0] in LIBRARIES:
        return False
    return any(name.startswith(first) and name.endswith(".py") for name in project.names_in(importer.folder))


def _is_beside_by_another_name(project: Project, importer: SourceModule, parts: list[str]) -> bool:
    """Whether a file beside, with another name, defines all that is imported, of which a class is one.

    The module is called like those that people have of their own: a library may be kept beside as a file, too. Of one
    word, in the singular and in the plural, one is meant for the other. So it is of two versions, `layers_v2` and
    `layers`, where the one that is there has all that is asked for.
    """
    if len(parts) > 1 or parts[0] in LIBRARIES:
        return False
    other = parts[0].removesuffix("s") if parts[0].endswith("s") else f"{parts[0]}s"
    if f"{other}.py" in project.names_in(importer.folder):
        return True
    wanted = _wanted_of(importer, parts[0])
    beside = [file for file in project.files if file.parent == importer.folder and file != importer.file]
    versions = (file for file in beside if _VERSION.sub("", file.stem) == _VERSION.sub("", parts[0]))
    if any(_defines(project, file, wanted) for file in versions):
        return True
    if _OWN.isdisjoint(parts[0].split("_")) or not any(_CLASS.fullmatch(name) for name in wanted):
        return False
    return any(_defines(project, file, wanted) for file in beside)


def _is_in_other_letters(project: Project, base: Path, parts: list[str], importer: SourceModule) -> bool:
    """Whether a folder has what is imported, with capital letters for small ones, which Python tells apart (PEP 235).

    A library may be called like a folder of the project: the module has to be there, and to define what is asked for.
    """
    wanted = _wanted_of(importer, ".".join(parts))
    others = {each for each in project.names_in(base) if each.removesuffix(".py").lower() == parts[0].lower()}
    files = (base.joinpath(other.removesuffix(".py"), *parts[1:]).with_suffix(".py") for other in others)
    return parts[0] not in LIBRARIES and any(_defines(project, file, wanted) for file in files)


def _is_renamed(project: Project, parts: list[str]) -> bool:
    """Whether a package is a folder of the project by another name: files in it are all that is imported of it.

    In the folder of the project, whose name may be that of the package, all may be as it should.
    """
    package = parts[0]
    if len(parts) == 1 or package in LIBRARIES or package == project.root.name:
        return False
    if project.text("setup.py") or project.text("pyproject.toml"):
        return False
    asked: dict[str, set[str]] = {}
    word = rf"\b{re.escape(package)}\b"
    for user in project.mentioning(re.compile(word), re.compile(rf"\b(?:from|import)\b.*{word}")):
        for name, level in look_at(project, user).top_imports:
            if not level and name.partition(".")[0] == package:
                asked.setdefault(name, set()).update(_wanted_of(user, name))
    places = [set(_folders_with(project, name.split(".")[1:], wanted)) for name, wanted in asked.items()]
    common = set.intersection(*places) if places else set()
    is_alike = any(each.name.rstrip("s") == package.rstrip("s") for each in common)  # `net` for `nets`
    return bool(common) and project.root not in common and (len(places) > 1 or is_alike)


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


def _is_further(project: Project, parts: list[str], wanted: set[str]) -> bool:
    """Whether a module of this name, which may have what is wanted of it, is below another folder, which may be where
    programs are started."""
    size = len(parts)
    found: dict[Path, set[str]] = {}  # the names in each folder that is called so
    for file in project.files:
        path = file.with_suffix("").parts
        if list(path[-size:]) == parts:
            return True
        if list(path[-size - 1 : -1]) == parts:
            found.setdefault(file.parent, set()).add(path[-1])
    return any(_may_have(project, folder, names, wanted) for folder, names in found.items())


def _may_have(project: Project, folder: Path, names: set[str], wanted: set[str]) -> bool:
    """Whether all that is wanted of a folder may be in it: files called so, or what its `__init__.py` speaks of."""
    top = project.module(folder / "__init__.py") if "__init__" in names else None
    has_more = top is not None and "import *" in top.source.text
    return has_more or all(name in names or (top is not None and name in top.words) for name in wanted)
