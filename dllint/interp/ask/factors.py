"""How long a schedule is that a function of the project gives: by what its function divides the step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dllint.interp.run.graph import sources
from dllint.values import Arguments, Const, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_KEEPS = frozenset(("max", "int", "float"))


def spans_of(machine: Machine, factor: Value) -> tuple[Value, ...]:
    """By what a function divides the step that it is given: ``0.5 * (1 + cos(pi * step / total))`` by ``total``.

    None where it multiplies the step by something before: what it counts in is another thing then.

    Args:
        machine: the interpreter.
        factor: the function, as it is given to ``LambdaLR``.
    """
    if factor.site is None:
        return ()
    asked = (factor, "", "step")
    site = factor.site
    if asked not in machine.attempts:
        given: Arguments = Arguments((Symbol("counter", site=site),))
        machine.attempts[asked] = machine.tried(lambda: machine.call(factor, given, site))
    result = machine.attempts[asked].result
    found: list[Value] = []
    for value in sources(result) if result is not None else ():
        if isinstance(value, Symbol) and value.name in ("*", "/", "//") and len(value.inputs) > 1:
            counted = [any(map(_is_step, sources(each))) for each in value.inputs]
            if value.name == "*" and any(map(_is_step, value.inputs)):
                return ()
            if value.name != "*" and counted[0] and not counted[1]:
                found.append(_kept(value.inputs[1]))
    return tuple(found)


def _is_step(value: Value) -> bool:
    return isinstance(value, Symbol) and value.name == "counter" and not value.inputs


def _kept(value: Value) -> Value:
    """What a number is but for its type, and for a bound that keeps it from being zero."""
    while isinstance(value, Symbol) and value.name in _KEEPS:
        inner = [each for each in value.inputs if not isinstance(each, Const)]
        if len(inner) != 1:
            break
        value = inner[0]
    return value
