"""What the report draws beside verdicts: numbers by layer, histograms, and the order of samples, as plain data.

This module is imported in the user's process as well as in dllint's own, so it imports nothing but the standard
library.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

_BINS = 30
_LONGEST = 4000  # trace


@dataclass(slots=True)
class Histogram:
    """How often values between ``low`` and ``high`` were met, in parts of equal width."""

    low: float
    high: float
    counts: list[int]


@dataclass(slots=True)
class Layer:
    """A parameter of an optimizer with two or more dimensions.

    ``updates`` and ``gradients`` are the lengths of the update and of the gradient compared with that of the weights,
    with the step of the optimizer for each.
    """

    name: str
    shape: list[int]
    optimizer: str
    updates: list[tuple[int, float]] = field(default_factory=list)
    gradients: list[tuple[int, float]] = field(default_factory=list)
    weights: Histogram | None = None
    gradient: Histogram | None = None


@dataclass(slots=True)
class Units:
    """The outputs of an activation function: how many units are zero for every sample, which share is saturated."""

    name: str
    kind: str
    units: int
    samples: int
    dead: int = 0
    saturated: float = 0.0
    values: Histogram | None = None

    @property
    def share(self) -> float:
        """That of the units that are dead, or of the values that are saturated."""
        return self.dead / self.units if self.kind == "ReLU" else self.saturated


@dataclass(slots=True)
class Order:
    """The first samples of a pass over a data loader."""

    loader: str
    epoch: int
    indices: list[int]


@dataclass(slots=True)
class Pictures:
    """All that a run gives to draw, besides its traces."""

    layers: list[Layer] = field(default_factory=list)
    units: list[Units] = field(default_factory=list)
    orders: list[Order] = field(default_factory=list)
    histograms: dict[str, Histogram] = field(default_factory=dict)


def histogram(values: Sequence[float]) -> Histogram | None:
    """The histogram of the finite ones of some values; None if there are none."""
    finite = [value for value in values if value - value == 0]
    if not finite:
        return None
    low, high = min(finite), max(finite)
    counts = [0] * _BINS
    scale = _BINS / (high - low) if high > low else 0.0
    for value in finite:
        counts[min(int((value - low) * scale), _BINS - 1)] += 1
    return Histogram(low, high, counts)


class Trace:
    """Numbers at equal distances, of which every second is given up whenever they are too many."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self._distance = 1
        self._until_next = 0

    def add(self, value: float) -> None:
        """Add the number that comes next."""
        if self._until_next:
            self._until_next -= 1
            return
        self.values.append(value)
        self._until_next = self._distance - 1
        if len(self.values) == _LONGEST:  # an even number, so that it is this one that goes first
            del self.values[1::2]
            self._distance *= 2
