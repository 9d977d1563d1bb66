"""The hooks of a rule: which of its methods is called for which events."""

from __future__ import annotations

from collections.abc import Mapping

from dllint import events as vocabulary
from dllint.events import Event, name_of
from dllint.rule import Rule

_EVENTS: Mapping[str, type[Event]] = {
    "on_" + name_of(value): value
    for value in vars(vocabulary).values()
    if isinstance(value, type) and issubclass(value, Event) and value is not Event
}


_HOOKS: dict[type[Rule], Mapping[type[Event], str]] = {}


def hooks_of(rule: type[Rule]) -> Mapping[type[Event], str]:
    """The event hooks that a rule defines.

    Raises:
        TypeError: the rule has an ``on_…`` method that no event corresponds to.
    """
    known = _HOOKS.get(rule)
    if known is not None:
        return known
    found: dict[type[Event], str] = {}
    for name in dir(rule):
        if name.startswith("on_") and name != "on_program":
            if name not in _EVENTS:
                raise TypeError(f"{rule.__name__}.{name}: there is no such event")
            found[_EVENTS[name]] = name
    _HOOKS[rule] = found
    return found
