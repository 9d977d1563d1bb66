"""Numbers that are none: losses that stay so, weights, and deviations that make such losses, of one sample or of equal
ones (DL951)."""

from __future__ import annotations

import math

import torch

from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, Stack, Tensor, decided, events, stack_of
from dllint.confirm.probes.gradients import Tracked


class _Numbers(Samples):
    """What backward passes from one place began with, where wrong is what is not finite; or deviations from one place,
    where wrong are those that made a loss which is not finite."""

    in_a_row: int = 0  # losses that are not finite, up to the last
    since: int = 0  # the step of the first that is not
    degenerate: int = 0  # deviations of one sample, or that are 0


class Finiteness(PlaceProbe[_Numbers]):
    at_first = 24
    _weights: dict[Tracked, Samples] = {}
    _waiting: list[_Numbers] = []  # deviations, for the loss that comes of them

    def on_deviation(self, values: Tensor, result: Tensor, stack: Stack) -> None:
        if values.requires_grad or not values.is_floating_point():
            return
        seen = self.sample("DL951", stack) or (self.seen["DL951", stack] if values.numel() <= 1 else None)
        if seen is not None:
            seen.count()
            if seen not in self._waiting and bool(values.isfinite().all()) and not float(result) > 0:
                seen.degenerate += 1
                self._waiting.append(seen)

    def before_backward(self, call: events.BackwardCall) -> None:
        if self._waiting:
            is_broken = any(not bool(root.isfinite().all()) for root in call.roots)
            for seen in self._waiting:
                seen.wrong += is_broken
            self._waiting = []
        losses = self.sample("loss-not-finite", stack_of(call))
        if losses is not None and call.value is not None:
            is_broken = not math.isfinite(call.value)
            losses.since = losses.since if losses.wrong else self.run.steps
            losses.count(is_broken)
            losses.in_a_row = losses.in_a_row + 1 if is_broken else 0

    def on_optimizer_step(self, event: events.OptimizerStep) -> None:
        tracked = self.run.gradients.of(event.optimizer)
        if not self.is_sampled(tracked.steps, self.at_first):
            return
        samples = [sample for sample in tracked.samples() if sample.is_floating_point()]
        if samples:
            is_finite = bool(torch.stack([sample.isfinite().all().to(samples[0].device) for sample in samples]).all())
            seen = self._weights.setdefault(tracked, Samples())
            seen.count(not is_finite)
            seen.last = tracked.steps
            seen.first = seen.first or (0 if is_finite else tracked.steps)

    def judge(self) -> Judgements:
        yield from super().judge()
        for tracked, seen in self._weights.items():
            seen.stacks, seen.what = tuple(tracked.step_stacks), tracked.kind
            yield self.judgement("weights-not-finite", seen, decided(seen.wrong, seen.looks >= ENOUGH))

    def judge_each(self, seen: _Numbers) -> Judgements:
        """One loss that is not finite may be skipped by a scaler, or by the script; those that never end are lost."""
        if seen.rule == "DL951":
            yield self.judgement("DL951", seen, decided(seen.wrong, seen.looks >= ENOUGH))
        elif seen.looks:
            seen.first = seen.since if seen.wrong else 0
            verdict = decided(seen.in_a_row >= ENOUGH, not seen.wrong and seen.looks >= ENOUGH)
            yield self.judgement("loss-not-finite", seen, verdict)
