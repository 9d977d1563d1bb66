"""Runs that are made for an answer, and thrown away: can the loop learn one batch, and which learning rates work?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from statistics import median
from typing import Any

from torch.nn.modules.dropout import _DropoutNd
from torch.optim import Optimizer

from dllint.confirm.evidence import Judgement, Verdict
from dllint.confirm.probes.base import BackwardCall, Probe
from dllint.confirm.probes.gradients import Tracked
from dllint.events import ModelForward, OptimizerStep

_LEARNT, _NOT_LEARNT = 0.3, 0.5  # of the first loss
_STEADY, _ON = 0.8, 0.1  # of the last quarter's steps, and of the way, that the loss falls in it
_FEWEST = 50  # steps from which it counts that a batch is not learned
_LOWEST_RATE, _HIGHEST_RATE = 1e-7, 10.0
_MOST_OF = 0.8  # of the rates, from which a curve says something
_DIVERGED = 4.0  # times the lowest loss
_FLAT = 0.1  # share of the way to the lowest loss that counts as none
_FALLS = 0.05  # share of the first loss by which it has to fall somewhere
_AROUND = 4  # steps to both sides that a loss is smoothed with


class _Losses(Probe):
    """Collects the loss of each step."""

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self.losses: list[float] = []
        self.optimizers: set[Tracked] = set()
        self._pending: float | None = None

    def before_backward(self, call: BackwardCall) -> None:
        if self._pending is None and len(call.roots) == 1 and call.roots[0].numel() == 1:
            self._pending = float(call.roots[0].detach()) / (self.run.gradients.scale_of(call.roots) or 1.0)

    def on_optimizer_step(self, event: OptimizerStep[Any]) -> None:
        self.optimizers.add(self.run.gradients.of(event.optimizer))
        self.losses.append(math.nan if self._pending is None else self._pending)
        self._pending = None


class Overfit(_Losses):
    """Sees whether the loss falls when the script is given the same batch in every step, without regularization."""

    name = "overfit"

    def on_model_forward(self, event: ModelForward[Any]) -> None:
        for layer in event.model.modules():
            if isinstance(layer, _DropoutNd):
                layer.p = 0.0

    def before_optimizer_step(self, event: OptimizerStep[Any]) -> None:
        for group in event.optimizer.param_groups:
            if "weight_decay" in group:
                group["weight_decay"] = 0.0

    def judge(self) -> Iterator[Judgement]:
        losses = [loss for loss in self.losses if math.isfinite(loss)]
        if len(losses) < 2:
            return
        first, last = losses[0], median(losses[-5:])
        yield Judgement(
            "overfit-one-batch",
            self.name,
            self._verdict(first, last),
            f"on one batch, the loss went from {first:.3g} to {last:.3g} in {len(losses)} steps" + self._doubt(),
            "half of the first loss or more after 50 steps or more, and no steady fall; 0.3 of it or less refutes",
            {"first": first, "last": last, "steps": len(losses), "frozen": self.run.frozen_batches},
            len(losses),
            (0, self.run.steps),
            voice="alarm",
        )
        for loss in self.losses:
            self.run.trace("loss on one batch", loss)

    def _verdict(self, first: float, last: float) -> Verdict:
        if self._doubt() or first <= 0:
            return "INCONCLUSIVE"
        if last <= _LEARNT * first:
            return "REFUTED"
        is_stuck = last >= _NOT_LEARNT * first and len(self.losses) >= _FEWEST and not self._still_falls()
        return "CONFIRMED" if is_stuck else "INCONCLUSIVE"

    def _still_falls(self) -> bool:
        """Whether the loss falls on at the end, step by step: it is learned, though slowly."""
        losses = [loss for loss in self.losses if math.isfinite(loss)]
        late = losses[-(len(losses) // 4) :]
        steady = sum(after < before for before, after in pairwise(late)) >= _STEADY * (len(late) - 1)
        return steady and late[0] - late[-1] >= _ON * (losses[0] - losses[-1])

    def _doubt(self) -> str:
        if not self.run.frozen_batches:
            return ", but no data loader gave batches that could be kept"
        return ", but several optimizers take turns" if len(self.optimizers) > 1 else ""


class RateRange(_Losses):
    """Raises the learning rate from step to step, whatever schedule the script has, and looks at the loss."""

    name = "rate_range"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._own: float | None = None
        self._rates: list[float] = []

    def before_optimizer_step(self, event: OptimizerStep[Any]) -> None:
        optimizer: Optimizer = event.optimizer
        if self._own is None:
            self._own = float(optimizer.param_groups[0].get("initial_lr", optimizer.param_groups[0]["lr"]))
        share = min(1.0, len(self._rates) / max(self.run.settings.steps - 1, 1))
        rate = _LOWEST_RATE ** (1 - share) * _HIGHEST_RATE**share
        self._rates.append(rate)
        for group in optimizer.param_groups:
            group["lr"] = rate

    def judge(self) -> Iterator[Judgement]:
        curve = _smooth([pair for pair in zip(self._rates, self.losses, strict=False) if math.isfinite(pair[1])])
        if len(curve) < _MOST_OF * self.run.settings.steps:
            return
        flat, steepest, lowest, diverging = _landmarks(curve)
        first, best = curve[0][1], min(loss for _, loss in curve)
        falls = first - best > _FALLS * abs(first)
        yield Judgement(
            "lr-range",
            self.name,
            "CONFIRMED" if falls else "INCONCLUSIVE",
            f"{'' if falls else 'the loss hardly falls at any rate: '}it is flat below {flat:.1g}, falls fastest at "
            f"{steepest:.1g}, is lowest at {lowest:.1g}, "
            + (f"and diverges at {diverging:.1g}" if diverging else "and does not diverge")
            + f"; the script's rate is {self._own:.1g}",
            "loss against rate, smoothed; diverging is four times the lowest loss",
            {"own": self._own, "flat": flat, "steepest": steepest, "lowest": lowest, "diverges": diverging},
            len(curve),
            (0, self.run.steps),
            voice="note",
        )
        for rate, loss in curve:
            self.run.trace("rate", rate)
            self.run.trace("loss by rate", loss)


def _smooth(curve: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The curve with each loss replaced by the median of those around it."""
    losses = [loss for _, loss in curve]
    return [(rate, median(losses[max(0, at - _AROUND) : at + _AROUND + 1])) for at, (rate, _) in enumerate(curve)]


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
