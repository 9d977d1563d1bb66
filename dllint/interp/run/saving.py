"""Checkpoints that are handed to code which cannot be seen: ``save_checkpoint({"model": model.state_dict()}, path)``.

What a function of the project does with a checkpoint is interpreted. One that is not found is known by its name, and by
being given a dict with somebody's state in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dllint.choices import alternatives
from dllint.events import StateSaved
from dllint.sites import Site
from dllint.values import Arguments, Const, Symbol, Table, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

SAVERS = ("save", "save_checkpoint", "save_ckpt", "save_model", "save_on_master", "save_snapshot", "save_state")
"""The names that projects give to what saves a checkpoint."""

_PATHS = frozenset(("format", "os.path.join", "/", "+", "%", ".format"))


def note_saving(machine: Machine, name: str, arguments: Arguments, site: Site) -> None:
    """Tell of a checkpoint that an unresolved function of this name gets to save."""
    if name not in SAVERS:
        return
    for given in arguments.all():
        if any(_has_states(option) for _, option in alternatives(given)):
            machine.emit(StateSaved(site, given, _path_among(arguments), name))
            return


def _has_states(value: Value) -> bool:
    if not isinstance(value, Table):
        return False
    entries = (option for entry in value.entries().values() for _, option in alternatives(entry))
    return any(isinstance(option, Symbol) and option.name == "state_dict" for option in entries)


def _path_among(arguments: Arguments) -> Value | None:
    """The argument that is a text."""
    for given in arguments.all():
        is_text = isinstance(given, Const) and isinstance(given.value, str)
        if is_text or (isinstance(given, Symbol) and given.name in _PATHS):
            return given
    return None
