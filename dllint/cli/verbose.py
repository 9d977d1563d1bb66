"""``--verbose``: what a run has gone by, and which imports of the project's own it could not follow."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path

from dllint.cli import streams
from dllint.cli.project import Part, Project
from dllint.config.versions import PACKAGES
from dllint.dataclass import dataclass
from dllint.files.source import display_path
from dllint.interp.source.import_statements import Import, imports_of
from dllint.interp.source.module import SourceModule
from dllint.interp.source.project import Project as Sources
from dllint.interp.source.search_path import project_root
from dllint.report.text import count

_LISTED = 10  # imports that are named


@dataclass(slots=True)
class Imports:
    """What became of the imports of the project's own: how many were followed, and the files of each that was not."""

    followed: int = 0
    lost: dict[str, list[Path]] = field(default_factory=lambda: defaultdict(list))


def tell(project: Project) -> None:
    """Write to standard error what each part of a project was linted with, and what was not resolved in it."""
    for part in project.parts:
        if part.files:
            streams.note(_basis(part))
            _tell_imports(part, look_into(part))


def _basis(part: Part) -> str:
    """The configuration and the versions of a part."""
    names = [source.name for source in part.config.sources]
    configuration = f"configuration: {', '.join(names)}" if names else "no configuration file: the defaults apply"
    versions = ", ".join(f"{name} {version}" for name, version in part.settings.versions.items())
    where = display_path(str(part.config.root)) if part.config.root != Path.cwd() else "."
    return f"{where}: {count(len(part.files), 'file')}; {configuration}; versions: {versions or 'none is known'}"


def _tell_imports(part: Part, imports: Imports) -> None:
    if not imports.lost:
        found = f"{imports.followed} followed" if imports.followed else "there are none"
        streams.note(f"imports of the project's own: {found}")
        return
    streams.note(f"imports of the project's own: {imports.followed} followed, {len(imports.lost)} not found:")
    meant = _by_name([*part.files, *part.around])
    for name, files in sorted(imports.lost.items())[:_LISTED]:
        more = f" and {count(len(files) - 1, 'more file')}" if len(files) > 1 else ""
        hint = f"; {display_path(str(meant[name]))} may be meant" if name in meant else ""
        streams.note(f"  `{name}` in {display_path(str(files[0]))}{more}{hint}")
    if (rest := len(imports.lost) - _LISTED) > 0:
        streams.note(f"  and {rest} more")
    if any(not name.startswith(".") for name in imports.lost):
        streams.note("  imports start from the folder of a file, those above it, their src/ and lib/, and what the")
        streams.note("  pyproject.toml of these names: packages, members of a workspace, the pythonpath of pytest")


def look_into(part: Part) -> Imports:
    """Follow the imports of the files of a part."""
    meant = _by_name([*part.files, *part.around])
    projects: dict[Path, Sources] = {}
    imports = Imports()
    for file in part.files:
        root = project_root(file, Path.cwd(), part.settings.root)
        project = projects.setdefault(root, Sources(root))
        module = project.module(file)
        for statement in imports_of(module.source.text) if module is not None else ():
            if _leads_somewhere(project, module, statement):
                imports.followed += 1
            elif statement.level or _is_own(statement.module, meant):
                name = statement.module or "".join((statement.names or ("",))[:1])
                imports.lost["." * statement.level + name].append(file)
    return imports


def _leads_somewhere(project: Sources, module: SourceModule | None, statement: Import) -> bool:
    assert module is not None
    level, name, names = statement
    if project.find(module, name, level) is not None:
        return True
    return any(project.find_in_namespace(module, name, level, each) is not None for each in names or ())


def _is_own(name: str, meant: Mapping[str, Path]) -> bool:
    """Whether the project has a module of the name, somewhere, and no library is known that has it."""
    first = name.partition(".")[0]
    return name in meant and first not in sys.stdlib_module_names and first.replace("_", "-") not in PACKAGES


def _by_name(files: Iterable[Path]) -> dict[str, Path]:
    """The modules of a project by all names that they may have, depending on where imports start."""
    return {name: file for file in files if file.suffix == ".py" for name in _names(file)}


def _names(file: Path) -> Iterator[str]:
    parts = file.parent.parts[1:] if file.name == "__init__.py" else (*file.parent.parts[1:], file.stem)
    for start in range(1, len(parts)):
        yield ".".join(parts[start:])
