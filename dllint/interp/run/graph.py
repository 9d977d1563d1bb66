"""Questions about the graph of values: what a value comes from, what it reaches, and what it is behind its wrappers."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from dllint.choices import Choice, shared
from dllint.forms import attribute_of
from dllint.interp.run.copies import COPY_OF
from dllint.interp.run.roles import guess_role
from dllint.interp.source.trees import walk
from dllint.sites import Guards
from dllint.values import (
    BoundMethod,
    Const,
    External,
    Function,
    Instance,
    Items,
    Partial,
    Scope,
    Setting,
    Symbol,
    Table,
    Value,
)

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

# Methods that return the object they are called on, or something that stands for it.
SELF_RETURNING = frozenset(
    (".to", ".cuda", ".cpu", ".half", ".float", ".double", ".bfloat16", ".train", ".eval", ".requires_grad_", ".apply",
     ".share_memory", ".compile", ".to_empty")
)  # fmt: skip

_LIMIT = 400


def sources(value: Value, limit: int = _LIMIT, is_end: Callable[[Value], bool] | None = None) -> Iterator[Value]:
    """The value and everything it was computed from, nearest first; but nothing behind what ``is_end`` is true of."""
    seen: set[int] = set()
    pending = [value]
    for current in pending:  # which grows meanwhile
        if len(seen) >= limit:
            return
        if id(current) not in seen:
            seen.add(id(current))
            yield current
            if is_end is None or not is_end(current):
                pending.extend(current.inputs if isinstance(current, Symbol) else inputs_of(current))


def sources_under(value: Value, limit: int = _LIMIT) -> Iterator[tuple[Guards, Value]]:
    """The value and everything it was computed from, with the conditions under which it was: once for each of them."""
    seen: set[tuple[int, Guards]] = set()
    pending: list[tuple[Guards, Value]] = [((), value)]
    for guards, current in pending:  # which grows meanwhile
        if len(seen) >= limit:
            return
        if (id(current), guards) not in seen:
            seen.add((id(current), guards))
            yield guards, current
            if isinstance(current, Choice):
                pending.extend((guards + more, option) for more, option in current.options)
            else:
                pending.extend((guards, given) for given in inputs_of(current))


def inputs_of(value: Value) -> tuple[Value, ...]:
    """The values that a value was directly made from."""
    if isinstance(value, Symbol):
        return value.inputs
    if isinstance(value, Choice):
        return tuple(option for _, option in value.options)
    if isinstance(value, Items):
        return value.items
    if isinstance(value, Table):
        return tuple(value.contents.values())
    if isinstance(value, Setting):
        return (value.default,)
    return ()


def mentions_attribute(value: Value, name: str) -> bool:
    """Whether ``.name`` of something takes part in a value."""
    return any(attribute_of(source, name) is not None for source in sources(value, 40))


def gradient_owner(value: Value) -> Value | None:
    """For ``p.grad`` or ``p.grad.data``, the value of ``p``."""
    while (owner := attribute_of(value)) is not None:
        if attribute_of(value, "grad") is not None:
            return owner
        value = owner
    return None


def unwrapped(machine: Machine, value: Value) -> Value:
    """The object behind wrappers (``DataParallel(net)``), moves (``net.to(device)``) and ``.module``."""
    for _ in range(12):
        if isinstance(value, Instance) and machine.facts.role(value.library_name) == "wrapper":
            if not value.arguments.positional:
                return value
            value = value.arguments.positional[0]
        elif (isinstance(value, Symbol) and value.name in SELF_RETURNING and value.inputs) or (
            isinstance(value, Symbol)
            and value.name == "attribute"
            and value.detail in ("module", "_orig_mod")
            and value.inputs
        ):
            value = value.inputs[0]
        elif isinstance(value, Setting):
            value = value.default
        else:
            break
    return value


def objects(machine: Machine, value: Value | None) -> list[Value]:
    """The objects a value may be, behind wrappers; more than one for a choice, each once."""
    if value is None:
        return []
    found: list[Value] = []
    pending = [value]
    while pending:
        current = unwrapped(machine, pending.pop(0))
        if isinstance(current, Choice):
            pending.extend(option for _, option in current.options)
        elif not any(current is known for known in found):
            found.append(current)
    return found


def objects_under(machine: Machine, value: Value) -> list[tuple[Guards, Value]]:
    """The objects a value may be, behind wrappers, each once, with the conditions under which it is the one."""
    found: list[tuple[Guards, Value]] = []
    pending: list[tuple[Guards, Value]] = [((), value)]
    while pending:
        guards, current = pending.pop(0)
        current = unwrapped(machine, current)
        if isinstance(current, Choice):
            pending.extend((guards + more, option) for more, option in current.options)
            continue
        known = next((index for index, (_, other) in enumerate(found) if other is current), None)
        if known is None:
            found.append((guards, current))
        else:
            found[known] = (shared(found[known][0], guards), current)
    return found


def held_by(value: Value) -> Iterator[Value]:
    """What an object holds, and what a function closes over. A tensor does not hold the model that computed it."""
    if isinstance(value, Symbol):
        if not is_tensor_operation(value) and value.name != "copy.deepcopy":
            yield from value.inputs  # a deep copy does not hold what it was made from
    elif isinstance(value, Instance):
        yield from value.arguments.all()
        yield from (held for name, held in value.attributes.items() if name != COPY_OF)
    elif isinstance(value, BoundMethod):
        yield value.receiver
        yield value.function
    elif isinstance(value, Partial):
        yield value.callable
        yield from value.arguments.all()
    elif isinstance(value, Function):
        used = _names_in(value.node)
        scope: Scope | None = value.scope
        while scope is not None:
            yield from (held for name, held in scope.variables.items() if name in used)
            scope = scope.parent
    else:
        yield from inputs_of(value)


@lru_cache(maxsize=4096)
def _names_in(node: ast.AST) -> frozenset[str]:
    return frozenset(child.id for child in walk(node) if isinstance(child, ast.Name))


def is_tensor_operation(value: Symbol) -> bool:
    """Whether a symbol is a result of computing with tensors, rather than an object."""
    name = value.name
    if name == "forward" or name.startswith(("torch.", "numpy.")) or (not name[:1].isidentifier() and name[:1] != "."):
        return True
    if name == "call":
        return guess_role(value.inputs[0]) == "module"
    if name == "item":
        return _is_part_of_tensor(value)
    return (
        name.startswith(".")
        and bool(value.inputs)
        and (isinstance(value.inputs[0], Symbol) and is_tensor_operation(value.inputs[0]))
    )


def _is_part_of_tensor(item: Symbol) -> bool:
    """Whether an item is a part of a tensor, ``x[:, 0]``, or of what a model returns, ``model(x)[0]``."""
    whole, index = item.inputs[0], item.inputs[1] if len(item.inputs) > 1 else None
    if not isinstance(whole, Symbol) or isinstance(index, Const):
        return isinstance(whole, Symbol) and whole.name == "forward"
    return isinstance(index, Items) and is_tensor_operation(whole)


def reach(machine: Machine, start: Value, depth: int = 5) -> frozenset[int]:
    """The identities of all objects that can be got at from a value: inputs, arguments, attributes and items."""
    frontier: list[Value] = [start]
    seen: set[int] = set()
    for _ in range(depth):
        following: list[Value] = []
        for value in frontier:
            if id(value) in seen:
                continue
            seen.add(id(value))
            if isinstance(value, (Const, External)):  # most are: nothing is behind them, and they hold nothing
                continue
            seen.add(id(unwrapped(machine, value)))
            following.extend(held_by(value))
        frontier = following
        if len(seen) > _LIMIT:
            break
    return frozenset(seen)
