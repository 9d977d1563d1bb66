"""What a random order picks from something: ``x[order[:n]]``, with ``order = np.random.permutation(len(x))``.

So does a slice of what was reordered before: ``x = x[order]``, and then ``x[:n]``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dllint.dataclass import dataclass
from dllint.interp.run.graph import sources
from dllint.interp.run.reorders import picked_by
from dllint.interp.source.positions import statement_around
from dllint.values import Symbol, Value

_SPLITS = frozenset(("numpy.split", "numpy.array_split", "torch.split", "torch.tensor_split"))
_NEAR = 12  # values behind the number that is permuted, or behind an index


@dataclass(frozen=True, slots=True)
class Pick:
    """What a part of a random order picks: ``owner[index]``."""

    owner: Value
    index: Value
    value: Symbol


def picks(order: Symbol) -> Iterator[Pick]:
    """What the parts of an order pick from that whose length it has: of arrays beside it nothing else is told."""
    for owner in (each for given in order.inputs for each in sources(given, _NEAR)):
        items = owner.attributes.values() if isinstance(owner, Symbol) else ()
        for value in (each for each in items if isinstance(each, Symbol) and each.name == "item"):
            owned, index = value.inputs[:2]
            if owned is owner and any(_is_part(each, order) for each in sources(index, _NEAR)):
                yield Pick(owned, index, value)
    yield from _cut_after(order)


def name_of_pick(pick: Pick) -> str:
    """What a pick is called: the variable that it is bound to, as it is or after something was done with it."""
    statement = statement_around(pick.value.site) if pick.value.site is not None and not pick.value.hint else None
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    return target.id if isinstance(target, ast.Name) else pick.value.hint


def _cut_after(order: Symbol) -> Iterator[Pick]:
    """The slices of what an order has reordered as a whole, and of what it made of an array that it was given."""
    for whole in picked_by(order):
        if whole.name == "item" and whole.inputs[1] is order:
            yield from (Pick(whole.inputs[0], order, part) for part in picked_by(whole))
        elif whole.name == "slice" and order.inputs:
            yield Pick(order.inputs[-1], order, whole)


def _is_part(value: Value, order: Symbol) -> bool:
    """Whether a value is a stretch of an order, by two bounds or as one of those that it is split into."""
    if not isinstance(value, Symbol) or not value.inputs:
        return False
    if value.name == "slice":
        return value.inputs[0] is order
    made = value.inputs[0]
    return value.name == "item" and isinstance(made, Symbol) and made.name in _SPLITS and made.inputs[:1] == (order,)
