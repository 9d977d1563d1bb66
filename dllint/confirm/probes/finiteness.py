"""Losses that stay what is no number, and weights that are none: whatever is computed after that is lost."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, decided
from dllint.confirm.probes.events import BackwardCall, OptimizerStep, stack_of
from dllint.confirm.probes.gradients import Tracked


@dataclass(slots=True, eq=False)
class _Losses(Samples):
    """What backward passes from one place began with; wrong is what is not finite."""

    in_a_row: int = 0  # not finite, up to the last
    since: int = 0  # the step of the first that is not


class Finiteness(PlaceProbe[_Losses]):
    at_first = 24

    def begin(self) -> None:
        self._weights: dict[Tracked, Samples] = {}

    def before_backward(self, call: BackwardCall) -> None:
        seen = self.sample(stack_of(call))
        if seen is not None and call.value is not None:
            is_broken = not math.isfinite(call.value)
            if is_broken and not seen.wrong:
                seen.since = self.run.steps
            seen.count(is_broken)
            seen.in_a_row = seen.in_a_row + 1 if is_broken else 0

    def on_optimizer_step(self, event: OptimizerStep) -> None:
        tracked = self.run.gradients.of(event.optimizer)
        if not self.is_sampled(tracked.steps, self.at_first):
            return
        samples = [sample for sample in tracked.samples() if sample.is_floating_point()]
        if samples:
            device = samples[0].device
            is_finite = bool(torch.stack([sample.isfinite().all().to(device) for sample in samples]).all())
            seen = self._weights.setdefault(tracked, Samples())
            seen.count(not is_finite)
            seen.last = tracked.steps
            seen.first = seen.first or (0 if is_finite else tracked.steps)

    def judge(self) -> Judgements:
        yield from super().judge()
        for tracked, seen in self._weights.items():
            seen.stacks, seen.what = tuple(tracked.step_stacks), tracked.kind
            yield self.judgement("weights-not-finite", seen, decided(seen.wrong, seen.looks >= ENOUGH))

    def judge_each(self, seen: _Losses) -> Judgements:
        """One loss that is not finite may be skipped by a scaler, or by the script; those that never end are lost."""
        if seen.looks:
            seen.first = seen.since
            verdict = decided(seen.in_a_row >= ENOUGH, not seen.wrong and seen.looks >= ENOUGH)
            yield self.judgement("loss-not-finite", seen, verdict)
