"""What a method or function of the project does when it is called, where one asks: interpreted once, and aside."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dllint.interp.run.classes import find_member
from dllint.interp.run.opaque import NOT_ENTERED
from dllint.sites import Site
from dllint.values import Arguments, Class, Const, Function, Instance, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine
    from dllint.interp.run.trial import Trial


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
    """What a call returns that was not entered, as it could show no rule anything by itself."""
    if not isinstance(call, Symbol) or call.name != "call" or call.detail != NOT_ENTERED:
        return None
    function, given, site, receiver = call.inputs[0], call.arguments, call.site, machine.receivers.get(call)
    if not isinstance(function, Function) or given is None or site is None:
        return None
    if function.owner is not None and receiver is None:
        return None
    asked = (call, "", "")
    if asked not in machine.attempts:
        made_up = partial(_made_up, machine, receiver, function, site) if receiver is not None else lambda: None
        machine.attempts[asked] = machine.tried(lambda: machine.invoke(function, given, site, receiver=made_up()))
    return machine.attempts[asked].result


def attribute_left_out(machine: Machine, attribute: Symbol) -> Value | None:
    """An attribute of an object that a method sets which was not entered, as its constructor."""
    owner, site = attribute.inputs[0], attribute.site
    if not isinstance(owner, Instance) or not isinstance(owner.cls, Class) or site is None:
        return None
    asked = (attribute, "", "")
    if asked not in machine.attempts:
        machine.attempts[asked] = machine.tried(
            lambda: _made_up(machine, owner, None, site, is_new=True).attributes.get(attribute.detail, Const(None))
        )
    found = machine.attempts[asked].result
    return None if found is attribute or isinstance(found, Const) else found


def _made_up(
    machine: Machine, instance: Instance, asked: Function | None, site: Site, *, is_new: bool = False
) -> Instance:
    """The object as it would be if the other methods that were called and not entered had been."""
    copy = Instance(instance.cls, instance.arguments, instance.site)
    machine.made(copy.attributes)
    copy.attributes.update({} if is_new else _known_attributes(instance))
    init = find_member(machine, instance.cls, "__init__") if isinstance(instance.cls, Class) else None
    calls = machine.calls_left_out.get(instance, [])
    if not copy.attributes and isinstance(init, Function) and not any(method.node is init.node for method, _ in calls):
        machine.invoke(init, instance.arguments, site, receiver=copy)  # there was no time for it
    for method, given in calls:
        if asked is None or method.node is not asked.node:
            machine.invoke(method, given, site, receiver=copy)
    return copy


def _known_attributes(instance: Instance) -> dict[str, Value]:
    """The attributes that were set, and not only read."""
    return {
        name: value
        for name, value in instance.attributes.items()
        if not (isinstance(value, Symbol) and value.name == "attribute" and value.inputs[0] is instance)
    }
