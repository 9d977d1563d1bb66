"""DL210: gradients summed over several backward passes, without dividing the loss by their number."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from torch import Tensor

from dllint.confirm.evidence import Judgement, Stack, Verdict
from dllint.confirm.probes.base import ENOUGH, BackwardCall, LossCall, Probe, stack_of
from dllint.events import OptimizerStep

_ADAPTIVE = ("Adam", "RMSprop", "Adagrad", "Adadelta", "Adafactor", "Lion", "Rprop")
_CLOSE = 0.05
_MOST_WINDOWS = 1000  # of each place, after which one in so many is noted
_MOST = 60  # backward passes from each place whose loss is looked at


@dataclass(slots=True)
class _Windows:
    """Backward passes from one place: how many made up the gradients of a step, and how the loss was scaled."""

    sizes: list[int] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)
    kind: str = ""  # of the optimizer
    last: int = 0


class Accumulation(Probe):
    """Compares what is sent backward with the last loss that was computed."""

    name = "accumulation"
    turn = -2  # it asks for the gradients of a step before they count as used

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._seen: defaultdict[Stack, _Windows] = defaultdict(_Windows)
        self._loss: Tensor | None = None

    def on_loss_call(self, call: LossCall) -> None:
        self._loss = call.result.detach() if call.result.numel() == 1 else None

    def before_backward(self, call: BackwardCall) -> None:
        seen = self._seen[stack_of(call)]
        if self._loss is None or len(call.roots) != 1 or call.roots[0].numel() != 1 or len(seen.factors) >= _MOST:
            return
        loss = float(self._loss) * (self.run.gradients.scale_of(call.roots) or 1.0)
        factor = float(call.roots[0].detach()) * call.factor / loss if loss else math.nan
        if math.isfinite(factor):
            seen.factors.append(factor)
        self._loss = None

    def on_gap(self) -> None:
        self._loss = None

    def on_optimizer_step(self, event: OptimizerStep[Any]) -> None:
        stack = stack_of(event)
        tracked = self.run.gradients.of(event.optimizer)
        if not tracked.is_fresh or tracked.is_polluted or tracked.is_partial:
            return  # gradients that are never cleared are another bug
        for stack, size in tracked.window.items():
            seen = self._seen[stack]
            if len(seen.sizes) >= _MOST_WINDOWS and self.run.steps % self.run.every:
                continue
            seen.sizes.append(size)
            seen.kind = tracked.kind
            seen.last = self.run.steps

    def judge(self) -> Iterator[Judgement]:
        for stack, seen in self._seen.items():
            if seen.sizes:
                size = int(median(seen.sizes))
                factor = median(seen.factors) if seen.factors else math.nan
                is_adaptive = any(name in seen.kind for name in _ADAPTIVE)
                yield Judgement(
                    "DL210",
                    self.name,
                    _verdict(seen, size),
                    f"{size} backward passes per step, each with "
                    + (f"{factor:.3g} times the loss" if seen.factors else "a loss of unknown scale"),
                    "2 or more per step, each within 5 % of the whole loss, in 3 or more steps; 1 per step, or within "
                    "5 % of the loss divided by their number, refutes",
                    {"per_step": size, "factor": factor if seen.factors else None, "adaptive": is_adaptive},
                    len(seen.sizes),
                    (0, seen.last),
                    (stack,),
                    "note" if is_adaptive or len(set(seen.sizes[:-1])) > 1 else "alarm",
                )


def _verdict(seen: _Windows, size: int) -> Verdict:
    if len(seen.sizes) < ENOUGH:
        return "INCONCLUSIVE"
    if size == 1:
        return "REFUTED"
    if seen.factors and all(abs(factor - 1) < _CLOSE for factor in seen.factors):
        return "CONFIRMED"
    is_divided = seen.factors and all(abs(factor * size - 1) < _CLOSE for factor in seen.factors)
    return "REFUTED" if is_divided else "INCONCLUSIVE"
