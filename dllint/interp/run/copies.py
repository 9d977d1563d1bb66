"""Copies of objects: what is set in a copy is not set in what it is a copy of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dllint.interp.run.classes import role_of
from dllint.sites import Site
from dllint.values import Instance

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

COPY_OF = "<copy-of>"
_WRAPPERS = "torch.utils.data."


def deep_copy(machine: Machine, given: Instance, site: Site, known: dict[int, Instance] | None = None) -> Instance:
    """A copy of an object, and of the datasets that it holds, each once.

    Args:
        machine: the interpreter.
        given: the object.
        site: where it is copied.
        known: the copies that were made so far, by the identity of what they are copies of.
    """
    known = {} if known is None else known
    if id(given) in known:
        return known[id(given)]
    copied = known[id(given)] = Instance(given.cls, given.arguments, site)
    copied.attributes.update(given.attributes)
    wrapped = given.arguments.get(0, "dataset") if given.library_name.startswith(_WRAPPERS) else None
    held = {**({"dataset": wrapped} if wrapped is not None else {}), **given.attributes}
    for name, value in held.items():
        if name != COPY_OF and isinstance(value, Instance) and role_of(machine, value) == "dataset":
            copied.attributes[name] = deep_copy(machine, value, site, known)
    copied.attributes[COPY_OF] = given
    return copied
