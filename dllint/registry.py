"""Finding and loading rules.

Rule files are loaded *by path*, never by dotted name: the built-in ones from ``dllint/rules`` in a wheel or from
``rules/`` beside the package in a checkout, a project's own from ``rule-paths``, and a plug-in package's from the
``dllint.rules`` entry points that the configuration names. All of them go through the same loader.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import get_args

from dllint.engine_rules import ENGINE_RULES
from dllint.findings import Category, Safety, Severity
from dllint.hooks import hooks_of
from dllint.rule import CODE, NAME, Rule

RULE_FILE = re.compile(r"[a-z]{2,8}\d{2,4}_\w+\.py")
_HERE = Path(__file__).resolve().parent

RETIRED: dict[str, str] = {
    "not-analysed": "the name is not-analyzed",
    "unnormalised-gradient-accumulation": "the name is unnormalized-gradient-accumulation",
}
"""Codes and names that were used once and must not be given to another rule, with what replaced them."""


class RegistryError(Exception):
    """A rule file that cannot be loaded, or two rules that claim one code or name."""


def builtin_directory() -> Path:
    """``dllint/rules`` inside a wheel, else the ``rules/`` folder of a checkout."""
    packaged = _HERE / "rules"
    return packaged if packaged.is_dir() else _HERE.parent / "rules"


def load_file(path: Path) -> list[type[Rule]]:
    """Load the rules that one file defines, in order of definition.

    Raises:
        RegistryError: the file cannot be imported, defines no rule, or a rule lacks metadata.
    """
    name = f"dllint_rules.{path.parent.name}.{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise RegistryError(f"{path}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a file that leaves is as broken as one that raises
        del sys.modules[name]
        raise RegistryError(f"{path}: {type(error).__name__}: {error}") from error
    found = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, Rule) and value.__module__ == name
    ]
    if not found:
        raise RegistryError(f"{path}: no subclass of Rule in this file")
    for rule in found:
        _check_metadata(rule, path)
        if not rule.__doc__ or rule.__doc__ == Rule.__doc__:
            rule.__doc__ = module.__doc__
    return found


_CHOICES = {
    "category": get_args(Category),
    "severity": get_args(Severity),
    "fix_safety": ("", *get_args(Safety)),
}


def _check_metadata(rule: type[Rule], path: Path) -> None:
    for attribute, pattern in (("code", CODE), ("name", NAME)):
        value = getattr(rule, attribute, None)
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise RegistryError(f"{path}: {rule.__name__}.{attribute} is {value!r}, not of the form {pattern.pattern}")
        if value in RETIRED:
            raise RegistryError(f"{path}: {value} is retired ({RETIRED[value]})")
    for attribute, choices in _CHOICES.items():
        value = getattr(rule, attribute, None)
        if value not in choices:
            raise RegistryError(f"{path}: {rule.__name__}.{attribute} is {value!r}, not one of {', '.join(choices)}")
    if not all(isinstance(words, tuple) for words in rule.triggers):
        raise RegistryError(f"{path}: {rule.__name__}.triggers is not a tuple of tuples of words")
    try:
        hooks_of(rule)
    except TypeError as error:
        raise RegistryError(f"{path}: {error}") from error


def rule_files(directory: Path) -> list[Path]:
    """The rule files below a directory, ``dl101_some_name.py`` in it and in its family folders; with any prefix."""
    return sorted(path for path in directory.rglob("*.py") if RULE_FILE.fullmatch(path.name) and path.is_file())


@dataclass(frozen=True, slots=True)
class Registry:
    """All rules, by code, and what is wrong with rule files that could not be used and are not built in."""

    rules: tuple[type[Rule], ...]
    faults: tuple[str, ...]


def load_rules(extra: tuple[Path, ...] = (), plugins: tuple[str, ...] = ()) -> tuple[type[Rule], ...]:
    """All rules, by code: the engine's own, the built-in ones, and those of ``extra`` paths and ``plugins``.

    Raises:
        RegistryError: as :func:`load_registry`.
    """
    return load_registry(extra, plugins).rules


@lru_cache(maxsize=8)
def load_registry(extra: tuple[Path, ...], plugins: tuple[str, ...]) -> Registry:
    """Load all rules. A file of ``extra`` or ``plugins`` that fails costs its own rules only.

    Raises:
        RegistryError: a built-in file fails to load, or there is none (a broken installation must not look like clean
            code).
    """
    rules = list(ENGINE_RULES)
    for path in _builtin_files():
        rules += _without_clash(load_file(path), rules)
    files, faults = _added_files(extra, plugins)
    for path in files:
        try:
            rules += _without_clash(load_file(path), rules)
        except RegistryError as error:
            faults.append(str(error))
    return Registry(tuple(sorted(rules, key=lambda rule: rule.code)), tuple(faults))


def all_rule_files(extra: tuple[Path, ...] = (), plugins: tuple[str, ...] = ()) -> list[Path]:
    """The files of the built-in rules, of ``extra`` paths and of ``plugins``. Raises RegistryError."""
    return [*_builtin_files(), *_added_files(extra, plugins)[0]]


def _builtin_files() -> list[Path]:
    builtin = rule_files(builtin_directory())
    if not builtin:
        raise RegistryError(f"no rules found in {builtin_directory()}: the installation is broken")
    return builtin


def _added_files(extra: Iterable[Path], plugins: Sequence[str]) -> tuple[list[Path], list[str]]:
    """The rule files that the configuration adds, and what is wrong with places where there are none."""
    files: list[Path] = []
    faults: list[str] = []
    for path in extra:
        if path.is_dir():
            files += rule_files(path)
        elif path.is_file():
            files.append(path)
        else:
            faults.append(f"{path}: no such rule file or folder")
    for name, place in _plugin_places(plugins):
        if isinstance(place, Path):
            files += rule_files(place)
        else:
            faults.append(f"plug-in {name!r}: {place}")
    return files, faults


def _plugin_places(names: Sequence[str]) -> Iterator[tuple[str, Path | str]]:
    """The folder of each plug-in, or what is wrong with it."""
    if not names:
        return
    from importlib.metadata import entry_points  # costs 30 ms, so only when a plug-in is configured

    known = {point.name: point for point in entry_points(group="dllint.rules")}
    for name in names:
        if name not in known:
            yield name, "not installed (no entry point of that name in dllint.rules)"
            continue
        try:
            target = known[name].load()
            yield name, Path(target if isinstance(target, (str, Path)) else target.__path__[0])
        except Exception as error:
            yield name, f"{type(error).__name__}: {error}"


def _without_clash(added: list[type[Rule]], rules: Iterable[type[Rule]]) -> list[type[Rule]]:
    """The added rules themselves, if no code or name of theirs is taken. Raises RegistryError."""
    taken = {key: rule for rule in rules for key in (rule.code, rule.name)}
    for rule in added:
        for key in (rule.code, rule.name):
            if key in taken:
                raise RegistryError(f"{key} is claimed by both {taken[key].__name__} and {rule.__name__}")
            taken[key] = rule
    return added
