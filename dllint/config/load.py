"""Finding and reading configuration.

The nearest ``.dllint.toml``, ``dllint.toml`` or ``pyproject.toml`` with ``[tool.dllint]`` above a file applies to it,
and that one alone: files further up are read only where it names them with ``extend``. Options of the command line come
last. Every value keeps the file and line it comes from, for error messages and for ``dllint config --show``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from dllint.config.schema import BY_NAME, check
from dllint.dataclass import dataclass
from dllint.errors import UserError
from dllint.files import toml
from dllint.files.source import display_path

FILE_NAMES = (".dllint.toml", "dllint.toml", "pyproject.toml")
COMMAND_LINE = "command line"

_IN_PYPROJECT = ("tool", "dllint")


class ConfigError(UserError):
    """Configuration that cannot be used. The message names the file, the line and what is wrong, one per line."""


@dataclass(frozen=True, slots=True)
class Source:
    """The values that one file, or the command line, sets, and what relative paths and globs in it are relative to."""

    name: str
    directory: Path
    values: Mapping[str, Any]
    lines: toml.KeyLines = field(default_factory=dict)

    def origin(self, *path: str) -> str:
        """Where a value is set: ``pyproject.toml:12``."""
        line = toml.line_of(self.lines, path)
        return f"{self.name}:{line}" if line else self.name


@dataclass(frozen=True, slots=True)
class Config:
    """The configuration of one project: its root folder and its sources, the weakest first."""

    root: Path
    sources: tuple[Source, ...]

    @property
    def is_configured(self) -> bool:
        """Whether a file or an option sets anything."""
        return any(source.values for source in self.sources)

    def setters(self, key: str) -> Iterator[tuple[Source, Any]]:
        """The sources that set a key, each with its value, the weakest first."""
        return ((source, source.values[key]) for source in self.sources if key in source.values)

    def value(self, key: str) -> tuple[Source | None, Any]:
        """The value in force and the source that sets it, or None and the default."""
        setters = list(self.setters(key))
        return setters[-1] if setters else (None, BY_NAME[key].default)

    def table(self, key: str) -> dict[str, tuple[Any, Source]]:
        """The entries of a table, merged over the sources; the command line replaces the table instead."""
        entries: dict[str, tuple[Any, Source]] = {}
        for source, values in self.setters(key):
            if source.name == COMMAND_LINE:
                entries.clear()
            entries.update((name, (value, source)) for name, value in values.items())
        return entries


def find_config(directory: Path) -> Path | None:
    """The configuration file that applies in a folder: the nearest one in it or above it.

    Raises:
        ConfigError: a ``pyproject.toml`` on the way that speaks of dllint is not valid TOML.
    """
    found = (_config_in(folder) for folder in (directory, *directory.parents))
    return next((path for path in found if path is not None), None)


def _config_in(folder: Path) -> Path | None:
    """The configuration file right in a folder. Raises ConfigError."""
    for name in FILE_NAMES:
        path = os.path.join(folder, name)
        if os.path.isfile(path) and (name != "pyproject.toml" or _speaks_of_dllint(Path(path))):
            return Path(path)
    return None


def _speaks_of_dllint(path: Path) -> bool:
    """Whether a ``pyproject.toml`` has the table ``tool.dllint``. Most do not even have the word and are not parsed."""
    try:
        if b"dllint" not in path.read_bytes():
            return False
    except OSError:
        return False
    return _table_of_dllint(_parse(path)[0]) is not None


def _table_of_dllint(pyproject: Mapping[str, Any]) -> Any:
    """What ``tool.dllint`` is in a ``pyproject.toml``; None if there is no such key."""
    tool = pyproject.get("tool")
    return tool.get("dllint") if isinstance(tool, dict) else None


def project_root(directory: Path) -> Path:
    """Where a project without configuration starts: the nearest ``.git`` or ``pyproject.toml``, else right here."""
    for folder in (directory, *directory.parents):
        if os.path.exists(folder / ".git") or os.path.isfile(folder / "pyproject.toml"):
            return folder
    return directory


def read_chain(path: Path) -> tuple[Source, ...]:
    """Read a configuration file and the files it extends, the farthest first.

    Raises:
        ConfigError: a file is missing, not valid TOML, has an unknown key or a wrong value, or extends itself.
    """
    chain: list[Source] = []
    seen: set[Path] = set()
    while True:
        if path in seen:
            raise ConfigError(f"{chain[-1].origin('extend')}: {display_path(str(path))} extends itself")
        seen.add(path)
        source = _read_source(path)
        chain.append(source)
        if not (parent := source.values.get("extend")):
            return tuple(reversed(chain))
        path = Path(os.path.abspath(source.directory / Path(parent).expanduser()))
        if not path.is_file():
            raise ConfigError(f"{source.origin('extend')}: no such file: {display_path(str(path))}")


def _read_source(path: Path) -> Source:
    values, text = _parse(path)
    lines: toml.KeyLines = toml.key_lines(text)
    if path.name == "pyproject.toml":
        table = _table_of_dllint(values)
        values = {} if table is None else table
        depth = len(_IN_PYPROJECT)
        lines = {key[depth:]: line for key, line in lines.items() if key[:depth] == _IN_PYPROJECT}
    return checked(Source(display_path(str(path)), path.parent, values, lines))


def _parse(path: Path) -> tuple[dict[str, Any], str]:
    """The contents and the text of a TOML file. Raises ConfigError."""
    try:
        text = path.read_bytes().decode("utf-8")
        return toml.parse(text), text
    except OSError as error:
        raise ConfigError(f"{display_path(str(path))}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{display_path(str(path))}: not UTF-8 (byte {error.start})") from error
    except ValueError as error:
        raise ConfigError(f"{display_path(str(path))}: not valid TOML: {error}") from error


def parse_override(text: str, directory: Path) -> Source:
    """Read the ``key = value`` form of ``--config``.

    Raises:
        ConfigError: it is not TOML, or has an unknown key or a wrong value.
    """
    try:
        values = toml.parse(text)
    except ValueError as error:
        raise ConfigError(f"--config {text!r}: neither a file nor `key = value` in TOML: {error}") from error
    return checked(Source("--config", directory, values))


def checked(source: Source) -> Source:
    """The source itself, if its values are sound. Raises ConfigError that lists everything that is not."""
    if not isinstance(source.values, dict):
        raise ConfigError(f"{source.origin()}: tool.dllint must be a table")
    if _table_of_dllint(source.values) is not None:
        line = source.origin("tool", "dllint")
        raise ConfigError(f"{line}: [tool.dllint] is for pyproject.toml; write the keys without it in this file")
    if errors := [f"{source.origin(*path)}: {message}" for path, message in check(source.values)]:
        raise ConfigError("\n".join(errors))
    return source


class ConfigLoader:
    """Gives each file its configuration.

    Args:
        file: a configuration file to use for all files instead of searching one (``--config FILE``).
        isolated: use no configuration file at all.
        overrides: what the command line sets, the weakest first.
        base: the folder whose project uses a file from elsewhere; the working directory by default.
    """

    def __init__(
        self,
        file: Path | None = None,
        *,
        isolated: bool = False,
        overrides: Sequence[Source] = (),
        base: Path | None = None,
    ) -> None:
        self._file = file
        self._base = base or Path.cwd()
        self._isolated = isolated
        self._overrides = tuple(overrides)
        self._by_folder: dict[Path, Path | None] = {}
        self._by_file: dict[Path, Config] = {}

    def load(self, directory: Path, otherwise: Config | None = None) -> Config:
        """The configuration in force in a folder (an absolute path).

        Where no file configures the folder it is ``otherwise``, which is that of the path the user named: a run over
        a tree of packages is one project, and not one for each package.

        Raises:
            ConfigError: a file in force cannot be used.
        """
        path = self._in_force(directory)
        if path is None:
            return otherwise or Config(project_root(directory), self._overrides)
        if path not in self._by_file:
            self._by_file[path] = Config(self._root(path), (*read_chain(path), *self._overrides))
        return self._by_file[path]

    def is_configured(self, directory: Path) -> bool:
        """Whether a configuration file is in force in a folder (an absolute path)."""
        return self._in_force(directory) is not None

    def _in_force(self, directory: Path) -> Path | None:
        if self._isolated or self._file is not None:
            return None if self._isolated else self._file
        if directory not in self._by_folder:
            found, above = _config_in(directory), directory.parent
            self._by_folder[directory] = found or (self._in_force(above) if above != directory else None)
        return self._by_folder[directory]

    def _root(self, path: Path) -> Path:
        """A project starts where its configuration file is, unless a file from elsewhere was given to be used."""
        elsewhere = path == self._file and not self._base.is_relative_to(path.parent)
        return project_root(self._base) if elsewhere else path.parent
