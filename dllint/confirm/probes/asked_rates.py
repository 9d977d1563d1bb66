"""DL313: learning rates that are asked for."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import ENOUGH, Probe


@dataclass(slots=True, eq=False)
class _Asked:
    """The calls of ``get_lr`` from one place."""

    kind: str
    calls: int = 0
    wrong: int = 0
    example: tuple[float, float] = (0.0, 0.0)  # what was returned, and what is in use


class AskedRates(Probe):
    """DL313: compares what ``get_lr`` returns with the learning rates of the optimizer."""

    name = "asked_rates"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._seen: dict[Stack, _Asked] = {}

    def on_rates_asked(self, scheduler: Any, rates: list[float], stack: Stack) -> None:
        used = [float(group["lr"]) for group in scheduler.optimizer.param_groups]
        seen = self._seen.setdefault(stack, _Asked(type(scheduler).__name__))
        seen.calls += 1
        differing = [pair for pair in zip(rates, used, strict=False) if not math.isclose(*pair, rel_tol=1e-6)]
        if differing:
            seen.wrong += 1
            seen.example = differing[0]

    def judge(self) -> Iterator[Judgement]:
        for stack, seen in self._seen.items():
            returned, used = seen.example
            yield Judgement(
                "DL313",
                self.name,
                "CONFIRMED" if seen.wrong else "REFUTED" if seen.calls >= ENOUGH else "INCONCLUSIVE",
                f"{seen.wrong} of {seen.calls} calls of {seen.kind}.get_lr returned what is not in use"
                + (f", such as {returned:.3g} for {used:.3g}" if seen.wrong else ""),
                "any that differs; none of 3 refutes",
                {"wrong": seen.wrong, "calls": seen.calls, "returned": returned, "used": used},
                seen.calls,
                (0, self.run.steps),
                (stack,),
                "alarm",
            )
