"""Where the absolute imports of a file are looked up.

That is its own folder and those above it up to the root of the project, each with its ``src/`` and ``lib/``; then what
the packaging files on this way say: where the code of a package lies, which packages are parts of the same workspace
(uv, Hatch, PDM, Rye) and which are installed from a path (Poetry, uv). A package that is no part of anything above is
still part of a workspace that names it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from dllint.files import toml

SOURCES = ("src", "lib")  # scripts put the latter on the path themselves
PACKAGING = "pyproject.toml"
_TELLING = ("workspace", "path", "where", "package-dir", "packages", "sources", "module-root", "python-source")
_CONFIGURED = (".git", ".dllint.toml", "dllint.toml")
_PACKAGED = ("pyproject.toml", "setup.py", "setup.cfg")
_DEVELOPED = ("uv", "pdm", "rye")  # tools whose table `workspace` has the members

Names = Callable[[Path], frozenset[str]]
Text = Callable[[Path], str]


class SearchPaths:
    """The search paths of a project's folders.

    Args:
        names: gives the names in a folder, none if it cannot be read.
        text: gives the text of a file, an empty one if it cannot be read.
    """

    def __init__(self, names: Names, text: Text) -> None:
        self._names = names
        self._text = text

    def of(self, folder: Path, root: Path) -> tuple[Path, ...]:
        """The search path of the files in a folder at or below a root."""
        bases = [folder]
        while bases[-1] != root and root in bases[-1].parents:
            bases.append(bases[-1].parent)
        found = dict.fromkeys(bases)
        found.update(dict.fromkeys(base / name for base in bases for name in SOURCES if name in self._names(base)))
        for base in bases:
            found.update(dict.fromkeys(self._stated(base)))
        found.update(dict.fromkeys(self._of_workspace_around(root)))
        return tuple(found)

    def _of_workspace_around(self, root: Path) -> Iterator[Path]:
        """The sources of the workspace further up that has a folder, or one above it, among its members."""
        for folder in root.parents:
            members = list(self._members(folder, _table(self._packaging(folder), "tool")))
            if any(root == member or member in root.parents for member in members):
                yield from self._stated(folder)
                return

    def _stated(self, base: Path) -> Iterator[Path]:
        """The folders with code that the packaging file of a folder names."""
        packaging = self._packaging(base)
        tool = _table(packaging, "tool")
        yield from self._own(base, tool)
        for member in self._members(base, tool):
            if member != base:
                yield from self._of_package(member)
        for path in _paths(tool):
            target = Path(os.path.normpath(base / path))
            if PACKAGING in self._names(target) or "setup.py" in self._names(target):
                yield from self._of_package(target)

    def _of_package(self, package: Path) -> Iterator[Path]:
        """The folders with the code of one package."""
        own = list(self._own(package, _table(self._packaging(package), "tool")))
        yield from own or [package / "src" if "src" in self._names(package) else package]

    def _own(self, base: Path, tool: Mapping[str, Any]) -> Iterator[Path]:
        for stated in _own_sources(tool):
            folder = Path(os.path.normpath(base / stated))
            if folder != base and self._names(folder):
                yield folder

    def _members(self, base: Path, tool: Mapping[str, Any]) -> Iterator[Path]:
        """The packages of a workspace."""
        for members, exclude in _workspaces(tool):
            left_out = {path for pattern in exclude for path in self._expanded(base, pattern)}
            for pattern in members:
                for path in self._expanded(base, pattern):
                    if path not in left_out and PACKAGING in self._names(path):
                        yield path

    def _expanded(self, base: Path, pattern: str) -> list[Path]:
        """The folders that a pattern with ``*`` stands for."""
        found = [base]
        for part in Path(pattern).parts:
            if not any(mark in part for mark in "*?["):
                found = [Path(os.path.normpath(folder / part)) for folder in found]
            else:
                found = [
                    folder / name
                    for folder in found
                    for name in sorted(self._names(folder))
                    if not name.startswith(".") and fnmatchcase(name, part)
                ]
        return found

    def _packaging(self, folder: Path) -> dict[str, Any]:
        """The packaging file of a folder, if it may say anything of the kind."""
        text = self._text(folder / PACKAGING)
        if not any(word in text for word in _TELLING):
            return {}
        try:
            return toml.parse(text)
        except ValueError:
            return {}


def _workspaces(tool: Mapping[str, Any]) -> Iterator[tuple[list[str], list[str]]]:
    """The patterns for the members of each workspace, and for what is none."""
    tables = [_table(_table(tool, name), "workspace") for name in _DEVELOPED]
    environments = _table(_table(tool, "hatch"), "envs")
    tables += [_table(_table(environments, name), "workspace") for name in environments]
    for table in tables:
        members = [member.get("path") if isinstance(member, dict) else member for member in _list(table, "members")]
        yield _words(members), _words(_list(table, "exclude"))


def _own_sources(tool: Mapping[str, Any]) -> list[str]:
    """Where the code of a package is, by what its build backend or pytest is told."""
    setuptools = _table(tool, "setuptools")
    hatch = _table(_table(tool, "hatch"), "build")
    targets = _table(hatch, "targets")
    found = [_table(setuptools, "package-dir").get(""), *_list(_table(_table(setuptools, "packages"), "find"), "where")]
    found += [each.get("from") for each in _list(_table(tool, "poetry"), "packages") if isinstance(each, dict)]
    for table in (hatch, *(_table(targets, name) for name in targets)):
        found += [os.path.dirname(path) for path in _words(_list(table, "packages"))]
        found += _list(table, "sources")
    found.append(_table(_table(tool, "uv"), "build-backend").get("module-root"))
    found.append(_table(_table(tool, "pdm"), "build").get("package-dir"))
    found.append(_table(tool, "maturin").get("python-source"))
    found += _list(_table(_table(tool, "pytest"), "ini_options"), "pythonpath")
    return [word for word in _words(found) if word]


def _paths(tool: Mapping[str, Any]) -> list[str]:
    """The packages that are installed from a folder."""
    poetry = _table(tool, "poetry")
    groups = _table(poetry, "group")
    tables = [poetry, *(_table(groups, name) for name in groups)]
    dependencies = [_table(table, "dependencies") for table in tables] + [_table(_table(tool, "uv"), "sources")]
    return _words(_table(table, name).get("path") for table in dependencies for name in table)


def _table(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = data.get(key)
    return value if isinstance(value, dict) else {}


def _list(data: Mapping[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    return value if isinstance(value, list) else []


def _words(values: Any) -> list[str]:
    return [value for value in values if isinstance(value, str)]


def project_root(file: Path, working_directory: Path, otherwise: Path | None = None) -> Path:
    """The folder that bounds the search for a file's imports.

    It is the nearest folder above the file with a ``.git`` or a configuration of dllint, or the working directory if
    that lies nearer: a packaging file alone makes a part of what is further up. Where there is none of these it is the
    nearest folder with a packaging file; else ``otherwise``, the folder that the user named or configured, if the file
    is below it; else the file's own.
    """
    packaged = None
    for folder in file.parents:
        if folder == working_directory or any(map(os.path.exists, (folder / name for name in _CONFIGURED))):
            return folder
        if toml.has_table(folder / PACKAGING, "tool", "dllint"):
            return folder
        if packaged is None and any(map(os.path.exists, (folder / name for name in _PACKAGED))):
            packaged = folder
    if packaged is not None:
        return packaged
    return otherwise if otherwise is not None and otherwise in file.parents else file.parent


def path_in_package(file: Path, root: Path, names_in: Callable[[Path], frozenset[str]]) -> str:
    """The dotted path of a module in the package that it belongs to, outermost package first; empty without one."""
    parts = [] if file.name == "__init__.py" else [file.stem]
    folder = file.parent
    if "__init__.py" not in names_in(folder):
        return ""
    while "__init__.py" in names_in(folder):
        parts.append(folder.name)
        if folder == root:
            break
        folder = folder.parent
    return ".".join(reversed(parts))
