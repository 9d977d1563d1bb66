"""Finding and loading rules.

Rule files are loaded *by path*, never by dotted name: the built-in ones from ``dllint/rules`` in a wheel or from
``rules/`` beside the package in a checkout, a project's own from ``rule-paths``, and a plug-in package's from the
``dllint.rules`` entry points that the configuration names. All of them go through the same loader.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from dllint.engine_rules import ENGINE_RULES
from dllint.rule import CODE, NAME, Rule

_HERE = Path(__file__).resolve().parent

RETIRED: dict[str, str] = {}
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
    except Exception as error:
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


def _check_metadata(rule: type[Rule], path: Path) -> None:
    for attribute, pattern in (("code", CODE), ("name", NAME)):
        value = getattr(rule, attribute, None)
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise RegistryError(f"{path}: {rule.__name__}.{attribute} is {value!r}, not of the form {pattern.pattern}")
        if value in RETIRED:
            raise RegistryError(f"{path}: {value} is retired ({RETIRED[value]})")
    if getattr(rule, "category", None) is None:
        raise RegistryError(f"{path}: {rule.__name__} has no category")


def rule_files(directory: Path) -> list[Path]:
    """The rule files below a directory: ``dlNNN_*.py`` and ``axcNN_*.py`` in it and in its family folders."""
    return sorted(
        path for pattern in ("dl[0-9]*.py", "axc[0-9]*.py") for path in directory.rglob(pattern) if path.is_file()
    )


@lru_cache(maxsize=8)
def load_rules(extra: tuple[Path, ...] = (), plugins: tuple[str, ...] = ()) -> tuple[type[Rule], ...]:
    """All rules, by code: the engine's own, the built-in ones, and those of ``extra`` paths and ``plugins``.

    Raises:
        RegistryError: a file fails to load, two rules share a code or name, or no built-in rule is found (a broken
            installation must not look like clean code).
    """
    rules = list(ENGINE_RULES)
    for path in all_rule_files(extra, plugins):
        rules.extend(load_file(path))
    _check_unique(rules)
    return tuple(sorted(rules, key=lambda rule: rule.code))


def all_rule_files(extra: tuple[Path, ...] = (), plugins: tuple[str, ...] = ()) -> list[Path]:
    """The files of the built-in rules, of ``extra`` paths and of ``plugins``. Raises RegistryError."""
    builtin = rule_files(builtin_directory())
    if not builtin:
        raise RegistryError(f"no rules found in {builtin_directory()}: the installation is broken")
    return [*builtin, *_extra_files(extra), *_plugin_files(plugins)]


def _extra_files(paths: Iterable[Path]) -> Iterable[Path]:
    for path in paths:
        if path.is_dir():
            yield from rule_files(path)
        elif path.is_file():
            yield path
        else:
            raise RegistryError(f"{path}: no such rule file or folder")


def _plugin_files(names: Sequence[str]) -> Iterable[Path]:
    if not names:
        return
    from importlib.metadata import entry_points  # costs 30 ms, so only when a plug-in is configured

    known = {point.name: point for point in entry_points(group="dllint.rules")}
    for name in names:
        if name not in known:
            raise RegistryError(f"plug-in {name!r} is not installed (no entry point of that name in dllint.rules)")
        target = known[name].load()
        yield from rule_files(Path(target if isinstance(target, (str, Path)) else target.__path__[0]))


def _check_unique(rules: Iterable[type[Rule]]) -> None:
    seen: dict[str, type[Rule]] = {}
    for rule in rules:
        for key in (rule.code, rule.name):
            if key in seen:
                raise RegistryError(f"{key} is claimed by both {seen[key].__name__} and {rule.__name__}")
            seen[key] = rule
