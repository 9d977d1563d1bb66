"""Loading the rules of one file, by its path."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import get_args

from dllint.errors import RegistryError
from dllint.findings import Category, Safety, Severity
from dllint.hooks import hooks_of
from dllint.rule import CODE, NAME, RETIRED, Rule


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
