"""DL313: learning rates that are asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from dllint.confirm.evidence import Stack
from dllint.confirm.probes.collecting import PlaceProbe
from dllint.confirm.probes.judging import ENOUGH, Judgements, Samples, decided


@dataclass(slots=True, eq=False)
class _Asked(Samples):
    """The calls of ``get_lr`` from one place."""

    example: tuple[float, float] = (0.0, 0.0)  # what was returned, and what is in use


class AskedRates(PlaceProbe[_Asked]):
    """DL313: compares what ``get_lr`` returns with the learning rates of the optimizer."""

    def on_rates_asked(self, scheduler: Any, rates: list[float], stack: Stack) -> None:
        used = [float(group["lr"]) for group in scheduler.optimizer.param_groups]
        differing = [pair for pair in zip(rates, used, strict=False) if not math.isclose(*pair, rel_tol=1e-6)]
        seen = self.at(stack)
        seen.what = type(scheduler).__name__
        seen.count(bool(differing))
        seen.example = differing[0] if differing else seen.example

    def judge_each(self, seen: _Asked) -> Judgements:
        returned, used = seen.example
        yield self.judgement(
            "DL313",
            seen,
            decided(seen.wrong, seen.looks >= ENOUGH),
            f"{seen.wrong} of {seen.looks} calls of {seen.what}.get_lr returned what is not in use"
            + (f", such as {returned:.3g} for {used:.3g}" if seen.wrong else ""),
            {"wrong": seen.wrong, "calls": seen.looks, "returned": returned, "used": used},
        )
