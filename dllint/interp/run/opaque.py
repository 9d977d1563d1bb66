"""Calls that are not interpreted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dllint.events import OpaqueCall
from dllint.sites import Site
from dllint.values import Arguments, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

NOT_ENTERED = "not entered"
"""The detail of a call of a function that could be interpreted, and was not, as no rule that runs asks for it."""


def opaque(machine: Machine, callee: Value, arguments: Arguments, site: Site, receiver: Value | None = None) -> Symbol:
    """A call that is not interpreted: anything may happen to what it is given."""
    given = tuple(arguments.all()) + ((receiver,) if receiver is not None else ())
    machine.emit(OpaqueCall(site, tuple(arguments.all()), getattr(callee, "name", ""), receiver))
    return Symbol("call", (callee, *given), site, arguments=arguments, grad=machine.grad)
