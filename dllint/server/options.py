"""What the client sets, and the settings that follow for a file together with the project's configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dllint.config.load import COMMAND_LINE, Config, ConfigLoader, Source, checked
from dllint.config.resolve import resolve
from dllint.config.selectors import Selectors, UnknownSelectorError
from dllint.config.settings import Settings
from dllint.dataclass import dataclass
from dllint.files.discovery import find_files, project_files
from dllint.files.globs import Globs
from dllint.registry import list_rules

_KEYS = (
    *("select", "extend-select", "ignore", "per-file-ignores", "severity", "exclude", "baseline"),
    *(
        "torch-version",
        "versions",
        "knowledge",
        "rule-paths",
        "plugins",
        "require-reason",
        "time-limit",
        "possible",
    ),
)
_OF_PLUGINS = ("rule-paths", "plugins")
_SELECTORS = ("select", "extend-select", "ignore")


@dataclass(frozen=True, slots=True)
class Options:
    """The settings of an editor for one folder.

    ``trusted`` folders may bring rules of their own; in one that the client says is not, scripts are not run either.
    ``isolated`` ones have no configuration but the client's. With ``workspace``, files are checked that are not open.
    ``overrides`` are values for configuration keys, ``config`` a configuration file to use instead of searching one.
    """

    trusted: bool = False
    may_run: bool = True
    code_lens: bool = False
    workspace: bool = False
    isolated: bool = False
    config: Path | None = None
    overrides: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, given: Any, base: Options | None = None) -> Options:
        """Read the options of a client, on top of others. What is not of the right type is left out."""
        base = base or cls()
        if not isinstance(given, dict):
            return base
        config = given.get("config")
        overrides = {key: given[name] for key in _KEYS if (name := _camel(key)) in given and given[name]}
        return replace(
            base,
            trusted=_flag(given, "trusted", base.trusted),
            may_run=_flag(given, "trusted", base.may_run),
            code_lens=_flag(given, "codeLens", base.code_lens),
            workspace=_flag(given, "workspaceDiagnostics", base.workspace),
            isolated=_flag(given, "isolated", base.isolated),
            config=Path(config).expanduser() if isinstance(config, str) and config else base.config,
            overrides={**(base.overrides or {}), **overrides},
        )


def _camel(key: str) -> str:
    head, *rest = key.split("-")
    return head + "".join(map(str.capitalize, rest))


def _flag(given: Mapping[str, Any], name: str, otherwise: bool) -> bool:
    value = given.get(name)
    return value if isinstance(value, bool) else otherwise


class Folder:
    """A workspace folder: the options of the client for it, and the configurations of the projects in it.

    Args:
        root: the folder.
        options: what the client sets for it.
    """

    def __init__(self, root: Path, options: Options) -> None:
        self.root = root
        self.options = options
        self.untrusted: set[Path] = set()  # projects whose own rules were not loaded
        overrides = options.overrides or {}
        sources = [checked(Source(COMMAND_LINE, root, overrides))] if overrides else []
        if options.isolated:
            sources.insert(0, Source("isolated", root, {"baseline": ""}))
        config = root / options.config if options.config is not None and not options.isolated else None
        self._loader = ConfigLoader(config, isolated=options.isolated, overrides=sources, base=root)
        self._settings: dict[Path, Settings] = {}

    def settings(self, file: Path) -> Settings | None:
        """The settings for a file (an absolute path), or None if the configuration excludes it.

        Raises:
            ConfigError: the configuration cannot be used.
        """
        config = self._loader.load(file.parent, self._otherwise(file))
        settings = self._settings.get(config.root)
        if settings is None:
            settings = self._settings[config.root] = resolve(self._allowed(config))
        path = os.path.relpath(file, settings.root).replace(os.sep, "/")
        return None if Globs(settings.exclude).matches(path) else settings

    def files(self, settings: Settings) -> list[Path]:
        """The files of a project in the folder, which has these settings."""
        root = settings.root
        if root == self.root:
            found = find_files([root], exclude=settings.exclude, root=root).files
        else:
            found = project_files(root, exclude=settings.exclude, root=root)
        return [file for file in found if self._loader.load(file.parent, self._otherwise(file)).root == root]

    def _otherwise(self, file: Path) -> Config | None:
        return self._loader.load(self.root) if file.is_relative_to(self.root) else None

    def _allowed(self, config: Config) -> Config:
        """A configuration without what would run code of the project, unless the folder is trusted."""
        if self.options.trusted or not any(source.values.get(key) for source in config.sources for key in _OF_PLUGINS):
            return config
        self.untrusted.add(config.root)
        selectors = Selectors(list_rules())
        return Config(config.root, tuple(_without_plugins(source, selectors) for source in config.sources))


def _without_plugins(source: Source, selectors: Selectors) -> Source:
    values = {key: value for key, value in source.values.items() if key not in _OF_PLUGINS}
    for key in _SELECTORS:
        if key in values:
            values[key] = _known(values[key], selectors)
    if "severity" in values:
        kept = _known(list(values["severity"]), selectors)
        values["severity"] = {selector: values["severity"][selector] for selector in kept}
    if "per-file-ignores" in values:
        table = values["per-file-ignores"]
        values["per-file-ignores"] = {glob: _known(codes, selectors) for glob, codes in table.items()}
    return replace(source, values=values)


def _known(words: Sequence[str], selectors: Selectors) -> list[str]:
    """The selectors that mean rules which are there."""
    return [word for word in words if _means_something(word, selectors)]


def _means_something(word: str, selectors: Selectors) -> bool:
    try:
        selectors.expand(word)
    except UnknownSelectorError:
        return False
    return True
