"""From configuration as it was read to settings: rules selected, paths and globs anchored, versions looked up."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dllint.config.load import Config, ConfigError, Source
from dllint.config.selectors import Layer, Selectors, UnknownSelectorError
from dllint.config.settings import Settings
from dllint.config.versions import find_limits, find_versions
from dllint.errors import RegistryError
from dllint.files.globs import Globs
from dllint.findings import Confidence
from dllint.registry import list_rules, load_registry, load_rules
from dllint.rule import Rule
from dllint.rule_table import Described

_SPECIAL = re.compile(r"[*?\[\\]")  # in the name of a folder that becomes part of a glob


def resolve(config: Config) -> Settings:
    """Work out the settings of a project.

    Raises:
        ConfigError: a selector means no rule, a glob can match nothing, or a rule file cannot be loaded.
    """
    selectors = Selectors(listed_rules(config))
    _check_selectors(config, selectors)
    _check_globs(config)
    selection = selectors.select(
        Layer(source.values.get("select"), source.values.get("extend-select", ()), source.values.get("ignore", ()))
        for source in config.sources
    )
    return Settings(
        root=config.root,
        enabled=selection.enabled,
        explicit=selection.explicit,
        defaults=selectors.defaults,
        severities=_by_code(config, "severity", selectors),
        fix_safety=_by_code(config, "fix-safety", selectors),
        bans=tuple(table for _, tables in config.setters("ban") for table in tables),
        per_file_ignores=tuple(
            (anchored(glob, source, config.root), selectors.union(codes))
            for glob, (codes, source) in config.table("per-file-ignores").items()
        ),
        exclude=tuple(
            anchored(glob, source, config.root) for source, globs in config.setters("exclude") for glob in globs
        ),
        rule_paths=_rule_paths(config),
        plugins=_plugins(config),
        versions=find_versions(config.root, configured_versions(config)),
        limits=find_limits(config.root, configured_versions(config)),
        knowledge={name: value for name, (value, _) in config.table("knowledge").items()},
        require_reason=config.value("require-reason")[1],
        time_limit=float(config.value("time-limit")[1]),
        fail_on=config.value("fail-on")[1],
        confidence=_confidence(config),
        notes=config.value("notes")[1],
        baseline=_baseline(config),
    )


def rules_of(config: Config) -> tuple[type[Rule], ...]:
    """The rules a project has: the built-in ones and those its configuration adds. Raises ConfigError."""
    try:
        return load_rules(_rule_paths(config), _plugins(config))
    except RegistryError as error:
        raise ConfigError(str(error)) from error


def listed_rules(config: Config) -> tuple[Described, ...]:
    """As :func:`rules_of`, for who does not run them: their files need not be imported. Raises ConfigError."""
    try:
        return list_rules(_rule_paths(config), _plugins(config))
    except RegistryError as error:
        raise ConfigError(str(error)) from error


def rule_faults(config: Config) -> tuple[str, ...]:
    """What is wrong with rules that the configuration adds, and that are therefore missing. Raises ConfigError."""
    try:
        return load_registry(_rule_paths(config), _plugins(config)).faults
    except RegistryError as error:
        raise ConfigError(str(error)) from error


def configured_versions(config: Config) -> dict[str, str]:
    """The versions the configuration states itself, ``torch-version`` before the table."""
    versions = {name: value for name, (value, _) in config.table("versions").items()}
    if torch := config.value("torch-version")[1]:
        versions["torch"] = torch
    return versions


def anchored(glob: str, source: Source, root: Path) -> str:
    """A glob of a source, rewritten to be relative to the root.

    A glob without a slash before its end matches names at any depth and needs no anchor.
    """
    if "/" not in glob.rstrip("/") or source.directory == root:
        return glob
    negation, bare = ("!", glob[1:]) if glob.startswith("!") else ("", glob)
    folder = _SPECIAL.sub(r"\\\g<0>", os.path.relpath(source.directory, root).replace(os.sep, "/"))
    end = "/" if bare.endswith("/") else ""
    return f"{negation}{posixpath.normpath(f'{folder}/{bare}')}{end}"


def _check_globs(config: Config) -> None:
    """Raise one ConfigError for all globs that can match nothing."""
    errors: list[str] = []
    for source in config.sources:
        for key in ("exclude", "per-file-ignores"):
            for glob in source.values.get(key, ()):
                try:
                    Globs([glob.removeprefix("!") if key == "per-file-ignores" else glob])
                except ValueError as error:
                    errors.append(f"{source.origin(key, glob)}: {error}")
    if errors:
        raise ConfigError("\n".join(errors))


def _check_selectors(config: Config, selectors: Selectors) -> None:
    """Raise one ConfigError for all selectors that mean no rule, each with the file and line it stands in."""
    errors: list[str] = []
    for origin, selector in _selectors_of(config):
        try:
            selectors.expand(selector)
        except UnknownSelectorError as error:
            errors.append(f"{origin}: {error}")
    if errors:
        raise ConfigError("\n".join([*rule_faults(config), *errors]))  # the rule may be in a file that is broken


def _selectors_of(config: Config) -> Iterator[tuple[str, str]]:
    """Every selector in the configuration, after the file and line it stands in."""
    for source in config.sources:
        for key in ("select", "extend-select", "ignore", "severity", "fix-safety"):
            yield from ((source.origin(key), selector) for selector in source.values.get(key, ()))
        for glob, selectors in source.values.get("per-file-ignores", {}).items():
            yield from ((source.origin("per-file-ignores", glob), selector) for selector in selectors)


def _by_code(config: Config, key: str, selectors: Selectors) -> dict[str, Any]:
    """What a table gives each code: of two selectors that mean it, the more precise one's value."""
    values: dict[str, Any] = {}
    table = config.table(key)
    for selector in sorted(table, key=selectors.precision):
        values.update(dict.fromkeys(selectors.expand(selector), table[selector][0]))
    return values


def _confidence(config: Config) -> Confidence:
    """How sure a finding must be to be reported: as the last source says that sets ``confidence`` or ``possible``."""
    least: Confidence = "likely"
    for source in config.sources:
        least = source.values.get("confidence", "possible" if source.values.get("possible") else least)
    return least


def _rule_paths(config: Config) -> tuple[Path, ...]:
    return tuple(
        Path(os.path.abspath(source.directory / path))
        for source, paths in config.setters("rule-paths")
        for path in paths
    )


def _plugins(config: Config) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for _, names in config.setters("plugins") for name in names))


def _baseline(config: Config) -> Path | None:
    """The baseline file, which need not exist."""
    source, name = config.value("baseline")
    if not name:
        return None
    if source is None:
        return _nearest(name, config.root)
    return Path(os.path.abspath(source.directory / name))


def _nearest(name: str, root: Path) -> Path:
    """A file in a project's folder or, as a part of a repository shares what the whole has, further up."""
    folders = (root, *root.parents)
    top = next((folder for folder in folders if os.path.exists(folder / ".git")), Path.cwd())
    places = (folder / name for folder in folders if folder.is_relative_to(top))
    return next((place for place in places if place.is_file()), root / name)
