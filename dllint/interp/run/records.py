"""Named tuples: what is put together under some names is read under them again."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from dllint.sites import Site
from dllint.values import Arguments, Const, Items, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_TYPES = ("collections.namedtuple", "typing.NamedTuple")
RECORDS = tuple(f"{name}()" for name in _TYPES)
"""The names of what they make."""


def is_record_type(callee: Value) -> TypeGuard[Symbol]:
    """Whether a value is what ``namedtuple("Transition", ["state", "action"])`` returned."""
    return isinstance(callee, Symbol) and callee.name in _TYPES


def make_record(machine: Machine, kind: Symbol, arguments: Arguments, site: Site) -> Value:
    """A named tuple: nothing else happens to what it is given."""
    made = Symbol(f"{kind.name}()", tuple(arguments.all()), site, arguments=arguments, grad=machine.grad)
    fields = _fields(kind)
    given = {**dict(zip(fields, _spelled_out(arguments, len(fields), site), strict=False)), **arguments.keywords}
    for name, value in given.items():
        machine.write(made.attributes, name, value)
    return made


def _spelled_out(arguments: Arguments, count: int, site: Site) -> tuple[Value, ...]:
    """The arguments, and what a star before ``zip(*batch)`` stands for: as many columns as there are fields left."""
    last = arguments.positional[-1] if arguments.positional and not arguments.exact else None
    starred = last.inputs[0] if isinstance(last, Symbol) and last.name == "element" else None
    if not isinstance(starred, Symbol) or starred.name != "zip":
        return arguments.positional
    before = arguments.positional[:-1]
    columns = (Symbol("item", (starred, Const(i)), site, detail=i) for i in range(count - len(before)))
    return (*before, *columns)


def _fields(kind: Symbol) -> list[str]:
    """The names of the fields, where they are written: in a text, or in a list of texts or pairs."""
    given = kind.arguments.get(1, "field_names") if kind.arguments is not None else None
    if isinstance(given, Const) and isinstance(given.value, str):
        return given.value.replace(",", " ").split()
    names = [item.items[0] if isinstance(item, Items) and item.items else item for item in _listed(given)]
    return [str(name.value) if isinstance(name, Const) else "" for name in names]


def _listed(value: Value | None) -> tuple[Value, ...]:
    return value.items if isinstance(value, Items) and value.exact else ()
