"""The options of a command line that code which is not interpreted has got: it may have set others in them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dllint.events import Event, LibraryCall, OpaqueCall
from dllint.interp.source.closed_parsers import only_reads
from dllint.values import Instance, Items, Table, Value

NAMESPACE = "argparse.Namespace"
_DEPTH = 2  # of objects within objects


def options_handed_on(event: Event) -> Iterator[Instance]:
    """The options that a call gets, other than to read them; what unknown code gets may also be in another object."""
    if isinstance(event, OpaqueCall):
        yield from options_in(event.values if event.receiver is None else (*event.values, event.receiver))
    elif isinstance(event, LibraryCall):
        yield from options_handed_to(event.name, event.arguments.all())


def options_handed_to(function: str, values: Iterable[Value]) -> Iterator[Instance]:
    """The options among the arguments of a function or method of a library, but for those that only read them."""
    if not only_reads(function):
        yield from options_in(values, depth=0)


def options_in(values: Iterable[Value], depth: int = _DEPTH) -> Iterator[Instance]:
    """The options among some values, or in the objects, lists and dicts that are among them; ``vars(x)`` is one."""
    for value in values:
        if isinstance(value, Instance) and value.library_name == NAMESPACE:
            yield value
        elif isinstance(value, Table) and value.holder is not None:
            yield from options_in([value.holder], depth)
        elif depth and isinstance(value, Instance):
            yield from options_in(value.attributes.values(), depth - 1)
        elif depth and isinstance(value, Items):
            yield from options_in(value.items, depth - 1)
        elif depth and isinstance(value, Table):
            yield from options_in(value.entries().values(), depth - 1)
