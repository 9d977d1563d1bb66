"""DL303, DL304 and DL305: when schedulers step first, and how often, compared with the optimizer, the epochs, and their
own horizon."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from dllint.confirm.evidence import Judgement, Verdict
from dllint.confirm.probes.base import ENOUGH, Judgements, ObjectProbe, Samples, decided
from dllint.confirm.probes.events import BackwardCall, ScalerUpdate, SchedulerStep, Stack, stack_of
from dllint.confirm.probes.gradients import Tracked

_HORIZONS = ("total_steps", "T_max", "total_iters", "step_size", "total_size")
_WARMING_UP = ("LinearLR", "ConstantLR", "SequentialLR")
_TWICE = 1.5  # steps of the scheduler per step of the optimizer, from which it is stepped twice
_MANY = 1000  # epochs, which few runs have
_LEFT = 0.01  # share of the learning rate at which an exponential schedule counts as over


@dataclass(slots=True, eq=False)
class _Steps(Samples):
    """The steps of one scheduler; the first is that of its optimizer."""

    horizon: float = 0.0
    tracked: Tracked | None = None  # of its optimizer
    before: int | None = None  # steps of that at the first of them; None where a scaler may have skipped some
    at: int = 0  # the same at the last
    places: dict[Stack, None] = field(default_factory=dict)


class Cadence(ObjectProbe[_Steps]):
    def begin(self) -> None:
        self._lengths: Counter[int] = Counter()  # of loaders: how many of their batches were followed by gradients
        self._skipping = False

    def on_scaler_update(self, event: ScalerUpdate) -> None:
        self._skipping = self._skipping or self.run.steps == 0

    def before_backward(self, call: BackwardCall) -> None:
        if call.batches is not None:
            self._lengths[_length(call.batches.loader)] += 1

    def on_scheduler_step(self, event: SchedulerStep) -> None:
        if isinstance(event.scheduler, ReduceLROnPlateau) or bool(event.arguments.all()):
            return
        seen = self.of(event.scheduler)
        if seen is not None:
            seen.count()
            seen.at = self._optimizer_steps(seen.tracked)
            seen.places.setdefault(stack_of(event))

    def describe(self, thing: Any, *place: Stack) -> _Steps:
        optimizer = getattr(thing, "optimizer", None)
        tracked = self.run.gradients.of(optimizer) if isinstance(optimizer, Optimizer) else None
        steps, before = self._optimizer_steps(tracked), tracked.steps if tracked and not self._skipping else None
        return _Steps(what=type(thing).__name__, horizon=_horizon(thing), tracked=tracked, first=steps, before=before)

    def _optimizer_steps(self, tracked: Tracked | None) -> int:
        return tracked.steps if tracked is not None and tracked.reached else self.run.steps

    def judge_each(self, seen: _Steps) -> Judgements:
        seen.stacks, seen.last = tuple(seen.places), seen.at
        yield self._cadence(seen)
        if seen.before is not None and seen.tracked is not None and seen.tracked.steps:  # else something else steps
            places = Samples((), seen.stacks[:1], seen.before, seen.before, looks=1, what=seen.what)
            yield self.judgement("DL303", places, decided(not seen.before, True), before=seen.before)
        steps = max(self._optimizer_steps(seen.tracked), 1)
        is_enough = min(steps, seen.looks) >= ENOUGH
        verdict = decided(is_enough and seen.looks / steps >= _TWICE, is_enough)
        yield self.judgement("DL305", seen, verdict, steps=seen.looks, optimizer_steps=steps)

    def _cadence(self, seen: _Steps) -> Judgement:
        batches = self._lengths.most_common(1)[0][0] if self._lengths else 0  # of the loader that trains
        between = (seen.at - seen.first) / max(seen.looks - 1, 1)  # optimizer steps per scheduler step
        unit = "optimizer step" if between < _TWICE else "several optimizer steps"
        told = f"one per {unit}; its horizon is {seen.horizon or 'unknown'} steps, the loader has "
        told += f"{batches or 'an unknown number of'} batches"
        verdict = self._verdict(seen, between, batches)
        return self.judgement("DL304", seen, verdict, told, optimizer_steps_between=between, batches=batches)

    def _verdict(self, seen: _Steps, between: float, batches: int) -> Verdict:
        horizon = seen.horizon
        if not horizon or seen.looks < 2 or batches < ENOUGH or (between < _TWICE and seen.looks < ENOUGH):
            return "INCONCLUSIVE"
        if between < _TWICE:
            return decided(horizon < batches, horizon >= 2 * batches)
        is_in_batches = horizon >= 2 * batches and horizon % batches == 0
        is_never_over = self.run.ended_by == "end" and horizon >= 2 * seen.looks
        return decided(is_in_batches and (is_never_over or horizon >= _MANY), horizon < batches)


def _horizon(scheduler: Any) -> float:
    """The steps that a schedule is made for; 0 where it does not say, or only warms up."""
    if type(scheduler).__name__ in _WARMING_UP:
        return 0.0
    for name in _HORIZONS:
        value = getattr(scheduler, name, None)
        if isinstance(value, (int, float)) and value > 0:
            return float(value)
    milestones = getattr(scheduler, "milestones", None)
    if milestones:
        return float(max(milestones))
    gamma = getattr(scheduler, "gamma", None)
    return math.log(_LEFT) / math.log(gamma) if isinstance(gamma, float) and 0 < gamma < 1 else 0.0


def _length(loader: Any) -> int:
    try:
        return len(loader)
    except TypeError:  # a loader of an iterable dataset without a length, or one that is gone
        return 0
