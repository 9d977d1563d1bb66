"""DL214: steps with gradients that are still scaled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.optim import Optimizer

from dllint.confirm.evidence import Judgement
from dllint.confirm.probes.base import ENOUGH, Probe
from dllint.confirm.probes.gradients import Tracked
from dllint.events import OptimizerStep


class ScaledSteps(Probe):
    """DL214: steps with gradients that a scaler has scaled, past the scaler."""

    name = "scaled_steps"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._steps: dict[Tracked, list[int]] = {}  # with a scaler, and with gradients that are still scaled

    def before_optimizer_step(self, event: OptimizerStep[Any]) -> None:
        optimizer: Optimizer = event.optimizer
        tracked = self.run.gradients.of(optimizer)
        if tracked.was_scaled:
            steps = self._steps.setdefault(tracked, [0, 0])
            steps[0] += 1
            steps[1] += (
                tracked.is_scaled and getattr(optimizer, "grad_scale", None) is None
            )  # which fused ones are given

    def judge(self) -> Iterator[Judgement]:
        for tracked, (steps, wrong) in self._steps.items():
            if steps >= ENOUGH:
                yield Judgement(
                    "DL214",
                    self.name,
                    "CONFIRMED" if wrong >= ENOUGH else "INCONCLUSIVE" if wrong else "REFUTED",
                    f"{wrong} of {steps} steps of {tracked.kind} used gradients that were still scaled",
                    "3 or more such steps; none refutes",
                    {"wrong": wrong, "steps": steps},
                    steps,
                    (0, tracked.steps),
                    tuple(tracked.step_stacks),
                    "alarm",
                )
