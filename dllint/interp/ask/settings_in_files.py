"""Conditions that do not hold under the values that a project gives its settings, also those in files of settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dllint.interp.run.graph import sources
from dllint.interp.source.known_settings import configured_values
from dllint.sites import Guard, Guards
from dllint.values import Const, Instance, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_MAX_SOURCES = 12
_LOOKUPS = frozenset((".get", ".getboolean", ".getint", ".getfloat"))


def is_off_by_default(machine: Machine, guards: Guards) -> bool:
    """Whether one of some conditions does not hold as long as all settings are as the project has them."""
    return any(guard.by_default is False or _is_off_in_files(machine, guard) for guard in guards)


def _is_off_in_files(machine: Machine, guard: Guard) -> bool:
    """Whether a condition is about a setting that is read of a file, and no file of the project meets it."""
    if guard.by_default is not None or guard.relation not in ("truthy", "=="):
        return False
    tested = next((value for value, first in machine.tested.values() if first.subject == guard.subject), None)
    name = _name_in_file(tested) if tested is not None else ""
    values = configured_values(machine.project, name) if name else None
    return bool(values) and all(_holds(guard, value) is not guard.holds for value in values or ())


def _holds(guard: Guard, value: Any) -> bool:
    return bool(value) if guard.relation == "truthy" else bool(value == guard.operand)


def _name_in_file(value: Value) -> str:
    """The name of an entry in what is read of a file of settings: `json.load(file)["norm"]`."""
    if not isinstance(value, Symbol) or not any(map(_is_file, sources(value, _MAX_SOURCES))):
        return ""
    if value.name in ("item", "attribute"):
        return value.detail if isinstance(value.detail, str) else ""
    given = value.inputs[1] if value.name in _LOOKUPS and len(value.inputs) > 1 else None
    return given.value if isinstance(given, Const) and isinstance(given.value, str) else ""


def _is_file(value: Value) -> bool:
    if isinstance(value, Instance):
        return value.library_name.endswith("ConfigParser")
    return isinstance(value, Symbol) and value.name == "open"
