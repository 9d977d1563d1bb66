"""Losses that stay what is no number, and weights that are none: whatever is computed after that is lost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from dllint.confirm.evidence import Judgement, Stack, Verdict
from dllint.confirm.probes.base import ENOUGH, BackwardCall, Probe, stack_of
from dllint.confirm.probes.gradients import Tracked
from dllint.events import OptimizerStep

_FIRST = 24  # losses from each place, and steps of each optimizer, that are all looked at


@dataclass(slots=True)
class _Losses:
    """What backward passes from one place began with."""

    calls: int = 0
    looks: int = 0
    broken: int = 0  # not finite
    in_a_row: int = 0  # not finite, up to the last
    first: int = 0  # step of the first that is not
    last: int = 0

    def verdict(self) -> Verdict:
        """One loss that is not finite may be skipped by a scaler, or by the script; those that never end are lost."""
        if self.in_a_row >= ENOUGH:
            return "CONFIRMED"
        return "REFUTED" if not self.broken and self.looks >= ENOUGH else "INCONCLUSIVE"


@dataclass(slots=True)
class _Weights:
    """Some weights of one optimizer after its steps."""

    looks: int = 0
    broken: int = 0
    first: int = 0
    last: int = 0


class Finiteness(Probe):
    """Looks at losses, and at a few weights of each optimizer."""

    name = "finiteness"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._losses: dict[Stack, _Losses] = {}
        self._weights: dict[Tracked, _Weights] = {}

    def before_backward(self, call: BackwardCall) -> None:
        seen = self._losses.get(stack_of(call))
        if seen is None:
            seen = self._losses[stack_of(call)] = _Losses()
        seen.calls += 1
        if (seen.calls > _FIRST and seen.calls % self.run.every) or call.value is None:
            return
        is_broken = not math.isfinite(call.value)
        if is_broken and not seen.broken:
            seen.first = self.run.steps
        seen.looks += 1
        seen.broken += is_broken
        seen.in_a_row = seen.in_a_row + 1 if is_broken else 0
        seen.last = self.run.steps

    def on_optimizer_step(self, event: OptimizerStep[Any]) -> None:
        tracked = self.run.gradients.of(event.optimizer)
        if tracked.steps > _FIRST and tracked.steps % self.run.every:
            return
        samples = [sample for sample in tracked.samples() if sample.is_floating_point()]
        if not samples:
            return
        seen = self._weights.setdefault(tracked, _Weights())
        seen.looks += 1
        seen.last = tracked.steps
        device = samples[0].device
        if not bool(torch.stack([sample.isfinite().all().to(device) for sample in samples]).all()):
            seen.first = seen.first or tracked.steps
            seen.broken += 1

    def judge(self) -> Iterator[Judgement]:
        for stack, seen in self._losses.items():
            if seen.looks:
                yield Judgement(
                    "loss-not-finite",
                    self.name,
                    seen.verdict(),
                    f"{seen.broken} of {seen.looks} losses are not finite, the last {seen.in_a_row} of them",
                    "the last 3 or more; none of 3 refutes",
                    {"broken": seen.broken, "sampled": seen.looks, "in_a_row": seen.in_a_row},
                    seen.looks,
                    (seen.first, seen.last),
                    (stack,),
                    "alarm",
                )
        for tracked, weights in self._weights.items():
            yield Judgement(
                "weights-not-finite",
                self.name,
                "CONFIRMED" if weights.broken else "REFUTED" if weights.looks >= ENOUGH else "INCONCLUSIVE",
                f"weights of {tracked.kind} are not finite after {weights.broken} of {weights.looks} steps",
                "after any step; after none of 3 refutes",
                {"broken": weights.broken, "sampled": weights.looks, "optimizer": tracked.kind},
                weights.looks,
                (weights.first, weights.last),
                tuple(tracked.step_stacks),
                "alarm",
            )
