"""What a run under probes leaves behind, with what the report draws beside verdicts: plain data that the run writes as
JSON and dllint reads.

This module is imported in the user's process as well as in dllint's own, so neither it nor what it imports of dllint
imports anything but the standard library.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, field, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast, get_args, get_origin, get_type_hints

from dllint.dataclass import dataclass

SCHEMA = 1
_BINS = 30
_LONGEST = 4000  # trace

Verdict = Literal["CONFIRMED", "REFUTED", "INCONCLUSIVE"]
Voice = Literal["alarm", "note", "", "declared"]
"""How a confirmed judgement speaks where no finding asks for it; ``declared``: as the table of its code says."""

Mode = Literal["observe", "overfit", "lr-range", "resume", "events"]

MARKS = {
    "epoch": "E",
    "forward": "F",
    "forward without gradients": "f",
    "backward": "B",
    "zero_grad": "Z",
    "step": "S",
    "scheduler": "L",
    "clip": "C",
    "unscale": "U",
    "scaler step": "K",
    "scaler update": "k",
}
"""The letters of the timeline."""


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the user's code that was being executed. In a notebook, ``line`` counts within ``cell``."""

    path: str  # absolute
    line: int
    function: str
    cell: int | None = None  # its number among all cells, from 1


ATTACHED = {"python": "attached-to-python", "torch": "attached-to-torch"}
"""Files beside the records that say how far attaching came."""

RECORDS = "rank*.json"
"""The pattern of the names of the records' files."""

Stack = tuple[Line, ...]
"""Frames of the user's code, innermost first."""


@dataclass(slots=True)
class Moment:
    """Some weights of an optimizer, its learning rates, and of how many parameters it has state, after a step."""

    step: int
    weights: list[float]
    rates: list[float]
    states: int
    scale: float = 0.0  # that of a gradient scaler; 0 where there is none
    batch: list[int] = field(default_factory=list)  # the indices of the samples of that step
    place: list[int] = field(default_factory=list)  # the pass over the loader, and the batches taken from it
    counters: dict[str, int] = field(default_factory=dict)  # of epochs and steps, in a checkpoint that was saved then


def counted_back(before: dict[str, int], after: dict[str, int]) -> list[str]:
    """The counters that are lower than before, where none is higher, as that of steps is when an epoch is over."""
    common = before.keys() & after.keys()
    is_ahead = any(after[name] > before[name] for name in common)
    return [] if is_ahead else sorted(name for name in common if after[name] < before[name])


@dataclass(slots=True)
class Told:
    """An event of the vocabulary (``loss_call``, …), and where it happened."""

    name: str
    stack: Stack


@dataclass(slots=True)
class Sight:
    """A line of the user's at which something happened, and what: a ``loader`` was made there, its ``batches`` were
    taken, or there was an object, by what it is and its class (``loss cross_entropy``, ``optimizer Adam``, ...)."""

    line: Line
    things: list[str]


@dataclass(slots=True)
class Shard:
    """A part of a model that a rank has saved, where the others have the rest."""

    path: str
    stack: Stack


@dataclass(slots=True)
class Histogram:
    """How often values between ``low`` and ``high`` were met, in parts of equal width."""

    low: float
    high: float
    counts: list[int]


@dataclass(slots=True)
class Layer:
    """A parameter of an optimizer with two or more dimensions."""

    name: str
    shape: list[int]
    optimizer: str
    updates: list[tuple[int, float]] = field(default_factory=list)  # by step of the optimizer, their lengths, and
    gradients: list[tuple[int, float]] = field(default_factory=list)  # those of gradients, compared with the weights'
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


@dataclass(slots=True)
class RankNotes:
    """What one rank notes for the comparison with the others."""

    draws: dict[str, list[list[str]]] = field(
        default_factory=dict
    )  # the states before and after some steps, by generator
    lengths: dict[str, list[int]] = field(default_factory=dict)  # batches of passes that came to their end, by dataset
    shards: list[Shard] = field(default_factory=list)


@dataclass(slots=True)
class Settings:
    """How a run is bounded and observed."""

    records: str  # the folder the evidence goes to
    scratch: str = ""  # the one that takes the files the script writes; empty: they go where the script wants them
    steps: int = 24  # 0 is no bound, as for the next
    epoch_batches: int = 8
    max_seconds: float = 120.0
    every: int = 10
    mode: Mode = "observe"  # or what experiment it is made for, after which the weights are good for nothing
    probes: list[str] = field(default_factory=list)  # the names of those that take part; empty: all
    notebook: str = ""  # the folder of the notebook that the script stands for


@dataclass(slots=True)
class Judgement:
    """What one probe says about one rule, at one place of the script or (without ``stacks``) about the whole run."""

    rule: str
    probe: str
    verdict: Verdict
    message: str
    threshold: str  # what the numbers were compared with
    statistics: dict[str, Any] = field(default_factory=dict)  # the numbers it rests on
    events: int = 0  # how many observations there were
    steps: tuple[int, int] = (0, 0)  # of the optimizer, at the first and the last of them
    stacks: tuple[Stack, ...] = ()
    voice: Voice = ""

    @property
    def frame(self) -> Line | None:
        """The innermost line that it is about; None where it is about the whole run."""
        return self.stacks[0][0] if self.stacks and self.stacks[0] else None


@dataclass(slots=True)
class ProbeError:
    """A probe that failed: the first traceback, and whether it was switched off for it."""

    probe: str
    traceback: str
    disabled: bool = False


@dataclass(slots=True)
class Record:
    """The evidence of one process.

    ``stop`` is why observation ended: ``budget`` (steps), ``backwards`` (nothing steps), ``time``, ``exception`` or
    ``end``. ``fingerprints`` are those of parameters before the first step and after a later one, if ranks are several;
    ``traces`` are numbers over the run by name, ``seconds`` the time each probe took.
    """

    process: int
    rank: int
    mode: Mode
    torch: str
    device: str
    stop: str
    error: str = ""
    steps: int = 0
    backwards: int = 0
    epochs: int = 0
    elapsed: float = 0.0
    timeline: str = ""
    traces: dict[str, list[float]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    judgements: list[Judgement] = field(default_factory=list)
    errors: list[ProbeError] = field(default_factory=list)
    redirected: list[str] = field(default_factory=list)
    fingerprints: dict[str, list[str]] = field(default_factory=dict)
    pictures: Pictures = field(default_factory=Pictures)
    moments: list[Moment] = field(default_factory=list)
    collectives: list[str] = field(default_factory=list)  # of all ranks together, in their order
    notes: RankNotes = field(default_factory=RankNotes)
    told: list[Told] = field(default_factory=list)  # the events, where the run is made for them
    seen: list[Sight] = field(default_factory=list)

    def write(self, folder: str) -> None:
        """Write the record to a folder. Raises OSError."""
        target = Path(folder, f"rank{self.rank}-{self.process}.json")
        partial = target.with_suffix(".partial")
        partial.write_text(json.dumps({"schema": SCHEMA, **asdict(self)}), encoding="utf-8")
        partial.replace(target)


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
        self._number = 0  # of the next

    def add(self, value: float) -> None:
        """Add the number that comes next."""
        if self._number % self._distance == 0:
            self.values.append(value)
            if len(self.values) == _LONGEST:  # an even number, so that it is this one that goes first
                del self.values[1::2]
                self._distance *= 2
        self._number += 1


def read_record(path: Path) -> Record:
    """Read a record. Raises OSError, and ValueError if it is none."""
    data = json.loads(path.read_text(encoding="utf-8"))
    if data.pop("schema") != SCHEMA:
        raise ValueError(f"{path} is of another version")
    return cast(Record, _made(Record, data))


_kinds = cache(get_type_hints)  # of the fields of a class


def _made(kind: Any, data: Any) -> Any:
    """A value of a type, of what it was written as."""
    origin, inner = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and is_dataclass(kind):
        return kind(**{name: _made(_kinds(kind)[name], value) for name, value in data.items()})
    if origin is list or (origin is tuple and inner[1:] == (...,)):
        return origin(_made(inner[0], item) for item in data)
    if origin is tuple:
        return tuple(data)
    if origin is dict:
        return {key: _made(inner[1], value) for key, value in data.items()}
    return _made(inner[0], data) if type(None) in inner and data is not None else data
