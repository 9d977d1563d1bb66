"""DL951: deviations of one sample, or of equal ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import Tensor

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import ENOUGH, BackwardCall, Probe
from dllint.confirm.probes.bootstrap import Calls

_FIRST = 10  # calls from each place that are looked at


class Deviations(Probe):
    """DL951: deviations of one sample, which are no number, or of equal ones, which are 0, and what comes of them."""

    name = "deviations"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._seen: dict[Stack, Calls] = {}
        self._waiting: list[Calls] = []  # for the loss that comes of them

    def on_deviation(self, values: Tensor, result: Tensor, stack: Stack) -> None:
        if values.requires_grad or not values.is_floating_point():
            return
        seen = self._seen.get(stack)
        if seen is None:
            seen = self._seen[stack] = Calls(first=self.run.steps)
        is_due = seen.is_due(self.run.every, self.run.steps)
        if not is_due and values.numel() > 1:
            return
        seen.looked += 1
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

    def judge(self) -> Iterator[Judgement]:
        for stack, seen in self._seen.items():
            good = seen.looked >= ENOUGH and not seen.wrong
            yield Judgement(
                "DL951",
                self.name,
                "CONFIRMED" if seen.wrong else "REFUTED" if good else "INCONCLUSIVE",
                f"{seen.degenerate} of {seen.looked} standard deviations were 0 or those of a single sample, and "
                f"{seen.wrong} made a loss that is not finite",
                "any such loss; none in 3 or more calls refutes",
                {"degenerate": seen.degenerate, "broken": seen.wrong, "sampled": seen.looked},
                seen.looked,
                (seen.first, seen.last),
                (stack,),
                "alarm",
            )
