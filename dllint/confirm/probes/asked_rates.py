"""DL313: compares what ``get_lr`` returns with the learning rates of the optimizer."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, decided
from dllint.confirm.probes.events import Stack


@dataclass(slots=True, eq=False)
class _Asked(Samples):
    """The calls of ``get_lr`` from one place."""

    example: tuple[float, float] = (0.0, 0.0)  # what was returned, and what is in use


class AskedRates(PlaceProbe[_Asked]):
    def on_rates_asked(self, scheduler: Any, rates: list[float], stack: Stack) -> None:
        used = [float(group["lr"]) for group in scheduler.optimizer.param_groups]
        differing = [pair for pair in zip(rates, used, strict=False) if not math.isclose(*pair, rel_tol=1e-6)]
        seen = self.at(stack)
        seen.what = type(scheduler).__name__
        seen.count(bool(differing))
        seen.example = differing[0] if differing else seen.example

    def judge_each(self, seen: _Asked) -> Judgements:
        returned, used = seen.example
        told = f", such as {returned:.3g} for {used:.3g}" if seen.wrong else ""
        verdict = decided(seen.wrong, seen.looks >= ENOUGH)
        yield self.judgement("DL313", seen, verdict, told, returned=returned, used=used)
