"""State dicts that something is merged into: ``own = model.state_dict(); own.update(torch.load(path))``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dllint.choices import alternatives
from dllint.interp.run import graph
from dllint.values import Absent, Arguments, Const, Symbol, Value

if TYPE_CHECKING:
    from dllint.interp.run.machine import Machine

_MERGED = "<merged>"


def merge(machine: Machine, base: Value, arguments: Arguments) -> Value | None:
    """``base.update(entries)`` on the state of a module, which is a dict of its own; ``None`` for anything else."""
    entries = arguments.get(0, None)
    if not isinstance(base, Symbol) or base.name != "state_dict" or entries is None:
        return None
    machine.write(base.attributes, _MERGED, entries)
    return Const(None)


def merged_into(state: Value) -> Value | None:
    """What was merged into the state of a module last, if anything was on some path."""
    found = state.attributes.get(_MERGED) if isinstance(state, Symbol) and state.name == "state_dict" else None
    return None if isinstance(found, Absent) else found


def sources_of_state(state: Value, limit: int) -> Iterator[Value]:
    """What a state is made of, nearest first, with what was merged into it: most of its entries are from there."""
    for source in graph.sources(state, limit):
        merged = merged_into(source)
        if merged is not None:
            for _, option in alternatives(merged):
                yield from graph.sources(option, limit)
        yield source
