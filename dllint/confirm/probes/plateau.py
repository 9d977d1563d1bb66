"""DL315: what schedulers that wait for a plateau are told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import mean
from typing import Any
from weakref import WeakKeyDictionary

from dllint.confirm.evidence import Judgement, Stack, Verdict
from dllint.confirm.probes.base import ENOUGH, BackwardCall, Probe

_LOSSES = 10  # backward passes after each metric whose losses are read
_METRICS = 4  # from which they have a trend
_MOST = 75  # percent of the changes that go the same way
_BOUNDS = (1.0, 100.0)  # of what is to grow, as a share or in percent


@dataclass(slots=True, eq=False)
class _Metrics:
    """What a scheduler was told, and the losses of training after each."""

    mode: str
    values: list[float] = field(default_factory=list)
    losses: list[list[float]] = field(default_factory=list)
    missing: int = 0
    stacks: dict[Stack, None] = field(default_factory=dict)


class Plateau(Probe):
    """DL315: whether a metric goes the way that its scheduler takes for the wrong one, while training goes well."""

    name = "plateau"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._known: WeakKeyDictionary[Any, _Metrics] = WeakKeyDictionary()
        self._all: list[_Metrics] = []

    def on_plateau(self, scheduler: Any, metric: float | None, stack: Stack) -> None:
        known = self._known.get(scheduler)
        if known is None:
            known = self._known[scheduler] = _Metrics(str(getattr(scheduler, "mode", "min")))
            self._all.append(known)
        known.stacks.setdefault(stack)
        if metric is None:
            known.missing += 1
        else:
            known.values.append(metric)
            known.losses.append([])

    def before_backward(self, call: BackwardCall) -> None:
        if not self._all:
            return
        for known in self._known.values():
            if known.losses and len(known.losses[-1]) < _LOSSES and call.roots[0].numel() == 1:
                scale = self.run.gradients.scale_of(call.roots) or 1.0
                known.losses[-1].append(float(call.roots[0].detach()) / scale)

    def judge(self) -> Iterator[Judgement]:
        for known in self._all:
            values = known.values
            shown = (
                f"went from {values[0]:.3g} to {values[-1]:.3g} in {len(values)} calls" if values else "was not given"
            )
            yield Judgement(
                "DL315",
                self.name,
                _verdict(known),
                f"the metric {shown}, where mode '{known.mode}' waits for it to "
                + ("grow" if known.mode == "max" else "fall"),
                "no metric; or one that moves the other way in three of four steps or more, of 4 or more, while the "
                "loss of training falls; one that moves as it should refutes",
                {"values": values[:50], "mode": known.mode, "missing": known.missing},
                len(values) + known.missing,
                (0, self.run.steps),
                tuple(known.stacks),
                "note",
            )


def _verdict(known: _Metrics) -> Verdict:
    trend = _trend(known.values)
    if known.missing and not known.values:
        return "CONFIRMED"
    if len(known.values) < ENOUGH or not trend:
        return "INCONCLUSIVE"
    if trend == ("up" if known.mode == "max" else "down"):
        return "REFUTED"
    losses = [mean(part) for part in known.losses if part]
    is_share = any(all(0 <= value <= bound for value in known.values) for bound in _BOUNDS)
    may_be_meant = known.mode == "min" and not is_share
    learns = len(losses) > 1 and losses[-1] < losses[0]
    return "CONFIRMED" if len(known.values) >= _METRICS and learns and not may_be_meant else "INCONCLUSIVE"


def _trend(values: list[float]) -> str:
    """Whether numbers go ``up`` or ``down`` all in all, and in most of their changes."""
    changes = [after - before for before, after in pairwise(values) if after != before]  # as of the best so far
    ups, downs = sum(change > 0 for change in changes), sum(change < 0 for change in changes)
    if len(changes) > 1 and 100 * ups >= _MOST * len(changes) and values[-1] > values[0]:
        return "up"
    return "down" if len(changes) > 1 and 100 * downs >= _MOST * len(changes) and values[-1] < values[0] else ""
