"""What a method or function of the project does when it is called, where one asks: interpreted once, and aside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dllint.interp.run.classes import find_member
from dllint.interp.run.opaque import NOT_ENTERED
from dllint.values import Arguments, Class, Function, Instance, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine, Trial


def attempt(machine: Machine, instance: Instance, method: str, given: str) -> Trial | None:
    """What comes of a call of a method for something unknown; `None` where no class of the project has it.

    Args:
        machine: the interpreter.
        instance: the object that has the method.
        method: its name.
        given: what its argument is called.
    """
    asked = (instance, method, given)
    known = machine.attempts.get(asked)
    if known is None:
        member = find_member(machine, instance.cls, method) if isinstance(instance.cls, Class) else None
        if not isinstance(member, Function) or member.site is None:
            return None
        site, given_to = member.site, Arguments((Symbol(given, site=member.site),))
        known = machine.attempts[asked] = machine.tried(
            lambda: machine.invoke(member, given_to, site, receiver=instance)
        )
    return known


def returned(machine: Machine, call: Value) -> Value | None:
    """What a call of a function returns that was not entered, as it could show no rule anything by itself."""
    if not isinstance(call, Symbol) or call.name != "call" or call.detail != NOT_ENTERED:
        return None
    function, given, site = call.inputs[0], call.arguments, call.site
    if not isinstance(function, Function) or function.owner is not None or given is None or site is None:
        return None
    asked = (call, "", "")
    if asked not in machine.attempts:
        machine.attempts[asked] = machine.tried(lambda: machine.invoke(function, given, site))
    return machine.attempts[asked].result
