"""What library calls do to the axes of a tensor: the table ``knowledge/axes.toml``."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from dllint.dataclass import dataclass
from dllint.interp.source.facts import AXES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer that sets the size of an axis: by which argument, and how many axes come after that of the channels."""

    argument: str
    position: int | None
    spatial: int


@dataclass(frozen=True, slots=True)
class SequenceLayer:
    """A layer that takes sequences.

    ``batch_first`` is the position of the argument that says in which order. ``of`` is the argument that is the layer
    which decides, in a stack of them. ``is_recurrent`` says that it has a state and may read in both directions.
    """

    argument: str
    position: int | None
    takes: str
    batch_first: int | None
    is_recurrent: bool
    of: str


@dataclass(frozen=True, slots=True)
class AxisFacts:
    """Names of calls by what they do to axes. Modules are written as their classes are called.

    ``takes`` are layers that take an axis of a certain size: the first argument, which says it, and the axis. ``names``
    are what axes are called in annotations and patterns, each with what it means.
    """

    same_functions: frozenset[str]
    same_methods: frozenset[str]
    same_modules: frozenset[str]
    channels: Mapping[str, Layer]
    features: Mapping[str, Layer]
    embedding: Mapping[str, Layer]
    sequence: Mapping[str, SequenceLayer]
    takes: Mapping[str, tuple[str, int]]
    names: Mapping[str, str]


@lru_cache(maxsize=1)
def axis_facts() -> AxisFacts:
    """The table, read once."""
    table = tomllib.loads(AXES.read_text("utf-8"))["axes"]
    return AxisFacts(
        same_functions=frozenset(table["same-functions"]),
        same_methods=frozenset(table["same-methods"]),
        same_modules=frozenset(table["same-modules"]),
        channels=_layers(table["channels"]),
        features=_layers(table["features"]),
        embedding=_layers(table["embedding"]),
        sequence={name: _sequence_layer(fact) for name, fact in table["sequence"].items()},
        takes={name: (fact["argument"], fact["axis"]) for name, fact in table["takes"].items()},
        names={name: meaning for meaning, names in table["names"].items() for name in names},
    )


def _layers(table: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Layer]:
    return {
        name: Layer(fact.get("argument", ""), fact.get("position"), fact.get("spatial", 0))
        for name, fact in table.items()
    }


def _sequence_layer(fact: Mapping[str, Any]) -> SequenceLayer:
    return SequenceLayer(
        argument=fact.get("argument", ""),
        position=fact.get("position"),
        takes=fact.get("takes", ""),
        batch_first=fact.get("batch-first"),
        is_recurrent=fact.get("recurrent", False),
        of=fact.get("of", ""),
    )
