"""A learning rate of 0 in every step. Reads the learning rates of all groups of an optimizer until one is not 0."""

from __future__ import annotations

from collections import Counter

from torch.optim import Optimizer

from dllint.confirm.probes.base import Judgements, Probe, alarm_if, decided
from dllint.confirm.probes.events import OptimizerStep, SchedulerStep
from dllint.confirm.probes.gradients import Tracked

_FEWEST = 10  # steps
_WARMING_UP = (1, 2)  # steps of a scheduler, after which a rate of 0 may be the first of a warm-up


class ZeroRate(Probe):
    def begin(self) -> None:
        self._steps: Counter[Tracked] = Counter()  # whose rates were all 0
        self._moving: dict[Tracked, None] = {}
        self._scheduled: Counter[Tracked] = Counter()

    def before_optimizer_step(self, event: OptimizerStep) -> None:
        tracked = self.run.gradients.of(event.optimizer)
        if tracked in self._moving:
            return
        rates = [group["lr"] for group in event.optimizer.param_groups if "lr" in group]
        if rates and all(float(rate) == 0 for rate in rates):
            self._steps[tracked] += 1
        else:
            self._moving[tracked] = None

    def on_scheduler_step(self, event: SchedulerStep) -> None:
        optimizer = getattr(event.scheduler, "optimizer", None)
        if isinstance(optimizer, Optimizer):
            self._scheduled[self.run.gradients.of(optimizer)] += 1

    def judge(self) -> Judgements:
        for tracked in {**self._moving, **self._steps}:
            steps = 0 if tracked in self._moving else self._steps[tracked]
            seen = tracked.seen(steps, *tracked.step_stacks, tracked.made)
            told = f"was 0 in all of {steps} steps" if steps else "is not 0"
            verdict, voice = decided(steps >= _FEWEST, not steps), alarm_if(self._scheduled[tracked] not in _WARMING_UP)
            yield self.judgement("learning-rate-zero", seen, verdict, told, voice)
