"""DL214: steps with gradients that a scaler has scaled, past the scaler."""

from __future__ import annotations

from dllint.confirm.probes.base import ENOUGH, Judgements, Probe, Samples, repeated
from dllint.confirm.probes.events import OptimizerStep
from dllint.confirm.probes.gradients import Tracked


class ScaledSteps(Probe):
    def begin(self) -> None:
        self._steps: dict[Tracked, Samples] = {}  # with a scaler; wrong are those with gradients that are still scaled

    def before_optimizer_step(self, event: OptimizerStep) -> None:
        tracked = self.run.gradients.of(event.optimizer)
        if tracked.was_scaled:
            is_told = getattr(event.optimizer, "grad_scale", None) is not None  # as fused ones are
            self._steps.setdefault(tracked, Samples()).count(tracked.is_scaled and not is_told)

    def judge(self) -> Judgements:
        for tracked, steps in self._steps.items():
            if steps.looks >= ENOUGH:
                seen = tracked.seen(steps.looks, *tracked.step_stacks)
                yield self.judgement("DL214", seen, repeated(steps.wrong), wrong=steps.wrong)
