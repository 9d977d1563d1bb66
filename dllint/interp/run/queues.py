"""Queues: what is put into a ``deque`` can be told when it is taken out again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dllint.choices import alternatives
from dllint.sites import Site
from dllint.values import Arguments, Const, Items, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_HELD = "<items>"  # among the attributes of a deque: what was put into it
DEQUE = "collections.deque"
_MANY = 8  # of what is put in at so many places, no more is noted


def held_in(queue: Symbol) -> tuple[Value, ...]:
    """What the program was seen to put into a deque."""
    options = [option for _, option in alternatives(queue.attribute(_HELD) or Const(None))]
    return tuple(item for option in options if isinstance(option, Items) for item in option.items)


def append(machine: Machine, base: Value, item: Value | None) -> Value | None:
    """``memory.append(item)``, where the memory is a deque."""
    if item is not None:
        _put(machine, base, (item,))
    return None


def _append_left(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    return append(machine, base, arguments.get(0, None))


def _extend(machine: Machine, base: Value, name: str, arguments: Arguments, site: Site) -> Value | None:
    given = arguments.get(0, None)
    if isinstance(given, Items):
        _put(machine, base, given.items)
    elif given is not None and not isinstance(given, Const):
        append(machine, base, Symbol("element", (given,), site))
    return None


def _put(machine: Machine, base: Value, items: tuple[Value, ...]) -> None:
    if not isinstance(base, Symbol) or base.name != DEQUE:
        return
    known = held_in(base)
    more = [item for item in items if not any(item is each for each in known)]
    if more and len(known) < _MANY:
        machine.write(base.attributes, _HELD, Items("list", (*known, *more), base.site, exact=False))


METHODS: dict[str, Callable[[Machine, Value, str, Arguments, Site], Value | None]] = {
    "appendleft": _append_left,
    "extend": _extend,
}
