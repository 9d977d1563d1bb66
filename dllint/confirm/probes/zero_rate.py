"""A learning rate of 0 in every step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.optim import Optimizer

from dllint.confirm.evidence import Judgement
from dllint.confirm.probes.base import Probe
from dllint.confirm.probes.gradients import Tracked
from dllint.events import OptimizerStep, SchedulerStep

_FEWEST = 10  # steps
_SCHEDULED = 3  # steps of a scheduler after which a rate of 0 is no first step of a warm-up


class ZeroRate(Probe):
    """Reads the learning rates of all groups of an optimizer until one is not 0."""

    name = "zero_rate"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._steps: dict[Tracked, int] = {}  # whose rates were all 0
        self._moving: set[Tracked] = set()
        self._scheduled: dict[Tracked, int] = {}

    def before_optimizer_step(self, event: OptimizerStep[Any]) -> None:
        optimizer: Optimizer = event.optimizer
        tracked = self.run.gradients.of(optimizer)
        if tracked in self._moving:
            return
        rates = [group["lr"] for group in optimizer.param_groups if "lr" in group]
        if rates and all(float(rate) == 0 for rate in rates):
            self._steps[tracked] = self._steps.get(tracked, 0) + 1
            return
        self._moving.add(tracked)
        self._steps.pop(tracked, None)

    def on_scheduler_step(self, event: SchedulerStep[Any]) -> None:
        optimizer = getattr(event.scheduler, "optimizer", None)
        if isinstance(optimizer, Optimizer):
            tracked = self.run.gradients.of(optimizer)
            self._scheduled[tracked] = self._scheduled.get(tracked, 0) + 1

    def judge(self) -> Iterator[Judgement]:
        for tracked in {**dict.fromkeys(self._moving), **self._steps}:
            steps = self._steps.get(tracked, 0)
            waits = 0 < self._scheduled.get(tracked, _SCHEDULED) < _SCHEDULED
            yield Judgement(
                "learning-rate-zero",
                self.name,
                "REFUTED" if not steps else "CONFIRMED" if steps >= _FEWEST else "INCONCLUSIVE",
                f"the learning rate of {tracked.kind} was 0 in all of {steps} steps"
                if steps
                else f"the learning rate of {tracked.kind} is not 0",
                "all groups, in all of 10 or more steps; any other rate refutes",
                {"steps": steps, "optimizer": tracked.kind},
                steps,
                (0, tracked.steps),
                (*tracked.step_stacks, tracked.made) if tracked.made else tuple(tracked.step_stacks),
                "note" if waits else "alarm",
            )
