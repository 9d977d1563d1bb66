"""DL301: how much of the gradient is weight decay."""

from __future__ import annotations

from statistics import median

from dllint.confirm.probes.base import ENOUGH, Judgements, Probe, decided
from dllint.confirm.probes.events import OptimizerStep
from dllint.confirm.probes.gradients import Tracked

_COUPLED = ("Adam", "NAdam", "RAdam")
_STRONG, _WEAK = 0.03, 0.005


class Decay(Probe):
    def begin(self) -> None:
        self._shares: dict[Tracked, list[float]] = {}

    def on_optimizer_step(self, event: OptimizerStep) -> None:
        tracked = self.run.gradients.of(event.optimizer)
        if tracked.kind not in _COUPLED or not self.is_sampled(tracked.steps, ENOUGH):
            return
        shares = [
            float(group["weight_decay"] * parameter.norm() / parameter.grad.norm())
            for group in event.optimizer.param_groups
            if group.get("weight_decay") and not group.get("decoupled_weight_decay")
            for parameter in group["params"]
            if parameter.grad is not None and bool(parameter.grad.any())
        ]
        if shares:
            self._shares.setdefault(tracked, []).append(median(shares))

    def judge(self) -> Judgements:
        for tracked, shares in self._shares.items():
            share, is_enough = median(shares), len(shares) >= ENOUGH
            verdict = decided(is_enough and share >= _STRONG, is_enough and share <= _WEAK)
            yield self.judgement("DL301", tracked.seen(len(shares), tracked.made), verdict, share=share)
