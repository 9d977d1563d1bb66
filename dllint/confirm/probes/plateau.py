"""DL315: whether a metric goes the way that its scheduler takes for the wrong one, while training goes well."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from statistics import mean
from typing import Any

from dllint.confirm.evidence import Verdict
from dllint.confirm.probes.base import ENOUGH, Judgements, ObjectProbe, Samples, decided
from dllint.confirm.probes.events import BackwardCall, Stack

_LOSSES = 10  # backward passes after each metric whose losses are read
_METRICS = 4  # from which they have a trend
_MOST = 75  # percent of the changes that go the same way
_BOUNDS = (1.0, 100.0)  # of what is to grow, as a share or in percent


@dataclass(slots=True, eq=False)
class _Metrics(Samples):
    """What a scheduler was told, and the losses of training after each."""

    mode: str = "min"
    values: list[float] = field(default_factory=list)
    losses: list[list[float]] = field(default_factory=list)
    missing: int = 0
    places: dict[Stack, None] = field(default_factory=dict)


class Plateau(ObjectProbe[_Metrics]):
    def on_plateau(self, scheduler: Any, metric: float | None, stack: Stack) -> None:
        known = self.of(scheduler)
        if known is not None:
            known.places.setdefault(stack)
            known.missing += metric is None
            known.values += [] if metric is None else [metric]
            known.losses += [] if metric is None else [[]]

    def describe(self, thing: Any, *place: Stack) -> _Metrics:
        return _Metrics(mode=str(getattr(thing, "mode", "min")))

    def before_backward(self, call: BackwardCall) -> None:
        for known in self.known.values() if self.seen else ():
            if known is not None and known.losses and len(known.losses[-1]) < _LOSSES and call.value is not None:
                known.losses[-1].append(call.value)

    def judge_each(self, seen: _Metrics) -> Judgements:
        values = seen.values
        seen.stacks, seen.looks = tuple(seen.places), len(values) + seen.missing
        moved = f"went from {values[0]:.3g} to {values[-1]:.3g} in {len(values)} calls" if values else "was not given"
        told = f"{moved}, where mode '{seen.mode}' waits for it to {'grow' if seen.mode == 'max' else 'fall'}"
        yield self.judgement("DL315", seen, _verdict(seen), told)


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
    return decided(len(known.values) >= _METRICS and learns and not may_be_meant, False)


def _trend(values: list[float]) -> str:
    """Whether numbers go ``up`` or ``down`` all in all, and in most of their changes."""
    changes = [after - before for before, after in pairwise(values) if after != before]  # as of the best so far
    ups, downs = sum(change > 0 for change in changes), sum(change < 0 for change in changes)
    if len(changes) > 1 and 100 * ups >= _MOST * len(changes) and values[-1] > values[0]:
        return "up"
    return "down" if len(changes) > 1 and 100 * downs >= _MOST * len(changes) and values[-1] < values[0] else ""
