"""DL951: deviations of one sample, which are no number, or of equal ones, which are 0, and what comes of them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, decided
from dllint.confirm.probes.events import BackwardCall, Stack


@dataclass(slots=True, eq=False)
class _Deviations(Samples):
    """Deviations from one place; wrong are those that made a loss which is not finite."""

    degenerate: int = 0  # of one sample, or 0


class Deviations(PlaceProbe[_Deviations]):
    def begin(self) -> None:
        self._waiting: list[_Deviations] = []  # for the loss that comes of them

    def on_deviation(self, values: Tensor, result: Tensor, stack: Stack) -> None:
        if values.requires_grad or not values.is_floating_point():
            return
        seen = self.sample(stack) or (self.seen[stack,] if values.numel() <= 1 else None)
        if seen is None:
            return
        seen.count()
        is_finite = bool(values.isfinite().all())
        if is_finite and not float(result) > 0 and seen not in self._waiting:
            seen.degenerate += 1
            self._waiting.append(seen)

    def before_backward(self, call: BackwardCall) -> None:
        if self._waiting:
            is_broken = any(not bool(root.isfinite().all()) for root in call.roots)
            for seen in self._waiting:
                seen.wrong += is_broken
            self._waiting = []

    def judge_each(self, seen: _Deviations) -> Judgements:
        yield self.judgement("DL951", seen, decided(seen.wrong, seen.looks >= ENOUGH))
