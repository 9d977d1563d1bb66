"""What was put together in lists, memories and named tuples, and is taken apart again."""

from __future__ import annotations

from collections.abc import Sequence

from dllint.choices import Choice, choose
from dllint.interp.run.queues import DEQUE, held_in
from dllint.interp.run.records import RECORDS
from dllint.values import Const, External, Instance, Items, Symbol, Table, Value

_SAME_MEMBERS = frozenset(
    ("list", "tuple", "reversed", "sorted", "set", "iter", "random.sample", "random.choices", "slice", DEQUE)
)
_DRAWN = ("random.sample", "random.choices")
_MAX_DEPTH = 8


def part(value: Symbol) -> Value | None:
    """What ``each[2]``, ``each.reward`` or ``each["reward"]`` of an element is, or a column of ``zip(*elements)``.

    A column is a list of the parts of all of them. ``None`` where the program does not show what was put in.
    """
    base = _same(value.inputs[0]) if value.inputs else None
    if not isinstance(base, Symbol):
        return None
    if base.name == "element" and base.inputs:
        parts = _parts_of_all(members(base.inputs[0]), value)
        return choose([((), each) for each in parts]) if parts else None
    if base.name == "zip":
        return _column(base, value)
    if base.name == "map" and len(base.inputs) == 2:
        column = part(Symbol("item", (base.inputs[1], *value.inputs[1:]), value.site, detail=value.detail))
        function = base.inputs[0]
        return Symbol(function.name, (column,), value.site) if column and isinstance(function, External) else None
    return None


def is_of_all(value: Symbol) -> bool:
    """Whether a value is a column of ``zip(*elements)``, so that there is one step for each element."""
    base = _same(value.inputs[0])
    while isinstance(base, Symbol) and base.name == "map" and len(base.inputs) == 2:
        base = base.inputs[1]
    return isinstance(base, Symbol) and _zipped(base) is not None and isinstance(value.detail, int)


def _zipped(zipped: Symbol) -> Value | None:
    """The elements of ``zip(*elements)``."""
    source = zipped.inputs[0] if zipped.name == "zip" and len(zipped.inputs) == 1 else None
    return source.inputs[0] if isinstance(source, Symbol) and source.name == "element" else None


def is_drawn(value: Value) -> bool:
    """Whether a value is a part of one of the elements that were drawn from a memory."""
    base = value.inputs[0] if isinstance(value, Symbol) and value.name in ("item", "attribute") else None
    source = base.inputs[0] if isinstance(base, Symbol) and base.name == "element" else None
    return isinstance(source, Symbol) and source.name in _DRAWN


def at(whole: Value, place: object) -> Value | None:
    """The part of a tuple at a place, or of a dict under a key."""
    if isinstance(whole, Table) and isinstance(place, str):
        return whole.contents.get(place)
    if not isinstance(whole, Items) or not whole.exact or not isinstance(place, int):
        return None
    return whole.items[place] if -len(whole.items) <= place < len(whole.items) else None


def members(value: Value, depth: int = 0) -> Sequence[Value]:
    """What a list or memory may hold, as far as the program shows it; nothing where it does not."""
    if isinstance(value, Choice):
        options = [members(option, depth + 1) for _, option in value.options if not _is_none(option)]
        return [each for option in options for each in option] if all(options) else ()
    if isinstance(value, Items):
        return [each for each in value.items if not _is_none(each)]
    if not isinstance(value, Symbol) or depth > _MAX_DEPTH:
        return ()
    if value.name == DEQUE and (held := held_in(value)):
        return held
    if not value.inputs:
        return ()
    if value.name == "zip" and len(value.inputs) > 1:
        return (Items("tuple", [Symbol("element", (each,), value.site) for each in value.inputs], value.site),)
    return members(value.inputs[0], depth + 1) if value.name in _SAME_MEMBERS else ()


def _column(zipped: Symbol, item: Symbol) -> Value | None:
    """The parts of all elements at one place."""
    elements = _zipped(zipped)
    parts = _parts_of_all(members(elements), item) if elements is not None else []
    return Items("tuple", parts, item.site, exact=False) if parts else None


def _parts_of_all(held: Sequence[Value], item: Symbol) -> list[Value]:
    parts = [_part_of(each, item) for each in held]
    known = [each for each in parts if each is not None]
    return known if len(known) == len(parts) else []


def _part_of(whole: Value, item: Symbol) -> Value | None:
    """What an element has under the key or name that is asked for."""
    key = item.inputs[1] if len(item.inputs) > 1 else None
    place = key.value if isinstance(key, Const) else item.detail
    if isinstance(whole, Items | Table):
        return at(whole, place)
    if isinstance(whole, Instance) and isinstance(place, str):
        return whole.attributes.get(place)
    if isinstance(whole, Symbol) and whole.name == "element":
        return part(Symbol("item", (whole, *item.inputs[1:]), item.site, detail=place))
    is_record = isinstance(whole, Symbol) and whole.name in RECORDS and whole.arguments is not None
    if not is_record or not isinstance(whole, Symbol) or whole.arguments is None or not whole.arguments.exact:
        return None
    if isinstance(place, str):
        return whole.attribute(place)
    fields = tuple(whole.arguments.all())
    return fields[place] if isinstance(place, int) and -len(fields) <= place < len(fields) else None


def _same(value: Value) -> Value:
    """A tuple or list of something that is gone through as it is."""
    while isinstance(value, Symbol) and value.name in ("list", "tuple") and value.inputs:
        value = value.inputs[0]
    return value


def _is_none(value: Value) -> bool:
    return isinstance(value, Const) and value.value is None
