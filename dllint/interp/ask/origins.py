"""Where a tensor's numbers come from: the operation behind reshapes, casts, indexing, helpers and models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dllint.choices import Choice
from dllint.dataclass import dataclass
from dllint.interp.run import containers
from dllint.interp.run.modules import force
from dllint.sites import Guards, Site
from dllint.values import Class, Const, Instance, Items, Setting, Symbol, Table, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_MAX_STEPS = 60
_MAX_ORIGINS = 16
_MAX_NESTED = 8
_JOINS = frozenset(("torch.cat", "torch.stack", "torch.concat", "torch.hstack", "torch.vstack"))
_SAME_NUMBERS = frozenset(("torch.autograd.Variable", "torch.squeeze", "torch.flatten", "torch.masked_select"))
_SELECTED = ".masked_select"  # which leaves some of them out

Hop = tuple[Site, str]


@dataclass(frozen=True, slots=True)
class Origin:
    """One possible origin of a value: the operation, the conditions on the way, and the hops from it to the value."""

    value: Value
    guards: Guards
    hops: tuple[Hop, ...]


def origins(machine: Machine, value: Value) -> list[Origin]:
    """All possible origins of a value. A value that cannot be followed is its own origin."""
    found: list[Origin] = []
    pending: list[tuple[Value, Guards, tuple[Hop, ...]]] = [(value, (), ())]
    steps = 0
    while pending:
        current, guards, hops = pending.pop(0)
        steps += 1
        if steps > _MAX_STEPS or len(found) >= _MAX_ORIGINS:
            found.append(Origin(current, guards, hops))
            continue
        following = _follow(machine, current, hops)
        if following is None:
            found.append(Origin(current, guards, hops))
        else:
            pending.extend((option, guards + more, trail) for more, option, trail in following)
    return found


def _follow(
    machine: Machine, value: Value, hops: tuple[Hop, ...]
) -> list[tuple[Guards, Value, tuple[Hop, ...]]] | None:
    """The values one step nearer to the origin, or ``None`` at the origin itself."""
    if isinstance(value, Choice):
        usable = [o for o in value.options if not (isinstance(o[1], Const) and o[1].value is None)]
        return [(guards, option, hops) for guards, option in usable or value.options]
    if isinstance(value, Setting) and value.has_default and not isinstance(value.default, Const):
        return [((), value.default, hops)]
    if not isinstance(value, Symbol) or not value.inputs:
        return None
    forced = force(machine, value)
    if forced is not value:
        return [((), forced, (*hops, *_forward_hop(value)))]
    if value.name in ("item", "slice"):
        return _indexed(machine, value, hops)
    if value.name in _JOINS:
        parts = value.inputs[0]
        return [((), part, hops) for part in parts.items] if isinstance(parts, Items) and parts.items else None
    step = _same_numbers(machine, value)
    return [((), step, hops)] if step is not None else None


def _forward_hop(value: Symbol) -> Iterator[Hop]:
    model = value.inputs[0]
    name = ""
    if isinstance(model, Instance):
        name = model.cls.name if isinstance(model.cls, Class) else model.cls.rpartition(".")[2]
    if value.site is not None:
        yield (value.site, f"`{name}` returns it" if name else "the model returns it")


def _indexed(
    machine: Machine, value: Symbol, hops: tuple[Hop, ...]
) -> list[tuple[Guards, Value, tuple[Hop, ...]]] | None:
    """An item of a tuple or dict that a model returns, or a part of a tensor (which has the same origin)."""
    base = value.inputs[0]
    options = _outputs(machine, base)
    if options[0][1] is base and isinstance(base, Symbol) and base.name == "item":
        outer = _indexed(machine, base, hops)
        if outer is not None and len(outer) == 1:
            options = _outputs(machine, outer[0][1])
    trail = (*hops, *_forward_hop(base)) if options[0][1] is not base and isinstance(base, Symbol) else hops
    index = value.inputs[1] if len(value.inputs) > 1 else Const(None)
    found: list[tuple[Guards, Value, tuple[Hop, ...]]] = []
    for guards, option in options:
        if isinstance(option, Items | Table) and value.name == "item":
            assert value.site is not None
            item = containers.get_item(machine, option, index, str(value.detail), value.site)
            if isinstance(item, Symbol) and item.name == "item" and item.inputs[0] is option:
                return None
            found.append((guards, item, trail))
        elif isinstance(option, Symbol) and not (isinstance(index, Const) and isinstance(index.value, str)):
            if option.name in ("element", "samples", "call", "parameter", "attribute", "unknown", "forward"):
                return None  # perhaps a tuple: which part it is cannot be told
            found.append((guards, option, trail))
        else:
            return None
    return found


def _outputs(machine: Machine, value: Value, depth: int = 0) -> list[tuple[Guards, Value]]:
    """What a value is behind the calls of models that return what other models return; another value is itself."""
    forced = force(machine, value)
    if depth > _MAX_NESTED:
        return [((), forced)]
    if isinstance(forced, Choice):
        return [
            (guards + more, inner)
            for guards, option in forced.options
            for more, inner in _outputs(machine, option, depth + 1)
        ]
    return [((), value)] if forced is value else _outputs(machine, forced, depth + 1)


def _same_numbers(machine: Machine, value: Symbol) -> Value | None:
    """The input of an operation that changes only shape, dtype or device."""
    facts = machine.facts
    name = value.name
    if name.startswith("."):
        return value.inputs[0] if name[1:] in facts.shape_only_methods or name == _SELECTED else None
    if name in facts.shape_only or name in _SAME_NUMBERS:
        position = 1 if name.endswith("()") else 0
        return value.inputs[position] if len(value.inputs) > position else None
    if name == "attribute" and value.detail in ("data", "T", "mT"):
        return value.inputs[0]
    return None
