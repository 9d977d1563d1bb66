"""Which learning rates work."""

from __future__ import annotations

import math
from statistics import median

from dllint.confirm.probes.base import Judgements, decided, events
from dllint.confirm.probes.overfit import Losses

_LOWEST_RATE, _HIGHEST_RATE = 1e-7, 10.0
_MOST_OF = 0.8  # of the rates, from which a curve says something
_DIVERGED = 4.0  # times the lowest loss
_FLAT = 0.1  # share of the way to the lowest loss that counts as none
_FALLS = 0.05  # share of the first loss by which it has to fall somewhere
_AROUND = 4  # steps to both sides that a loss is smoothed with


class RateRange(Losses):
    _own: float | None = None
    _rates: list[float] = []

    def before_optimizer_step(self, event: events.OptimizerStep) -> None:
        groups = event.optimizer.param_groups
        if self._own is None:
            self._own = float(groups[0].get("initial_lr", groups[0]["lr"]))
        share = min(1.0, len(self._rates) / max(self.run.settings.steps - 1, 1))
        rate = _LOWEST_RATE ** (1 - share) * _HIGHEST_RATE**share
        self._rates.append(rate)
        for group in groups:
            group["lr"] = rate

    def judge(self) -> Judgements:
        pairs = [pair for pair in zip(self._rates, self.losses, strict=False) if math.isfinite(pair[1])]
        around = [pairs[max(0, at - _AROUND) : at + _AROUND + 1] for at in range(len(pairs))]
        curve = [(rate, median(loss for _, loss in near)) for (rate, _), near in zip(pairs, around, strict=True)]
        if len(curve) < _MOST_OF * self.run.settings.steps:
            return
        flat, steepest, lowest, diverging = _landmarks(curve)
        first, best = curve[0][1], min(loss for _, loss in curve)
        falls = first - best > _FALLS * abs(first)
        told = f"diverges at {diverging:.1g}" if diverging else "does not diverge"
        told += "" if falls else "; but it hardly falls at any rate"
        found = {"own": self._own, "flat": flat, "steepest": steepest, "lowest": lowest, "diverges": diverging}
        yield self.judgement("lr-range", self.whole(looks=len(curve)), decided(falls, False), told, **found)
        for rate, loss in curve:
            self.run.trace("rate", rate)
            self.run.trace("loss by rate", loss)


def _landmarks(curve: list[tuple[float, float]]) -> tuple[float, float, float, float]:
    """The rates at which the loss begins to fall, falls fastest, is lowest, and diverges (0 where it does not)."""
    losses = [loss for _, loss in curve]
    bottom = min(range(len(losses)), key=losses.__getitem__)
    start = median(losses[: 2 * _AROUND])
    begin = max((at for at in range(bottom) if start - losses[at] < _FLAT * (start - losses[bottom])), default=0)
    falls = range(begin, max(begin + 1, bottom))
    steepest = max(falls, key=lambda at: losses[at] - losses[min(at + 1, bottom)])
    limit = losses[bottom] + (_DIVERGED - 1) * abs(losses[bottom])
    diverging = next((curve[at][0] for at in range(bottom, len(losses)) if losses[at] > max(limit, start)), 0.0)
    return curve[begin][0], curve[steepest][0], curve[bottom][0], diverging
