"""DL304 and DL305: how often schedulers step, compared with the optimizer, the epochs, and their own horizon."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from dllint.confirm.evidence import Judgement, Stack, Verdict
from dllint.confirm.probes.base import ENOUGH, Batches, Probe, stack_of
from dllint.confirm.probes.gradients import Tracked
from dllint.events import SchedulerStep

_HORIZONS = ("total_steps", "T_max", "total_iters", "step_size", "total_size")
_WARMING_UP = ("LinearLR", "ConstantLR", "SequentialLR")
_TWICE = 1.5  # steps of the scheduler per step of the optimizer, from which it is stepped twice
_MANY = 1000  # epochs, which few runs have
_LEFT = 0.01  # share of the learning rate at which an exponential schedule counts as over


@dataclass(slots=True)
class _Steps:
    """The steps of one scheduler."""

    kind: str
    horizon: float
    tracked: Tracked | None  # of its optimizer
    steps: int = 0
    first_at: int = 0  # steps of its optimizer when it made its first step
    last_at: int = 0
    stacks: Counter[Stack] = field(default_factory=Counter)


class Cadence(Probe):
    """Counts the steps of each scheduler."""

    name = "cadence"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._seen: list[_Steps] = []
        self._by_scheduler: WeakKeyDictionary[Any, _Steps] = WeakKeyDictionary()
        self._lengths: Counter[int] = Counter()  # of loaders: how many of their batches were followed by gradients
        self._latest: Batches | None = None

    def on_batch(self, batches: Batches, batch: Any) -> None:
        self._latest = batches

    def before_backward(self, call: Any) -> None:
        if self._latest is not None:
            self._lengths[_length(self._latest.loader)] += 1
            self._latest = None

    def on_scheduler_step(self, event: SchedulerStep[Any]) -> None:
        scheduler: Any = event.scheduler
        if isinstance(scheduler, ReduceLROnPlateau) or bool(event.arguments.all()):
            return
        seen = self._by_scheduler.get(scheduler)
        if seen is None:
            optimizer = getattr(scheduler, "optimizer", None)
            tracked = self.run.gradients.of(optimizer) if isinstance(optimizer, Optimizer) else None
            seen = self._by_scheduler[scheduler] = _Steps(type(scheduler).__name__, _horizon(scheduler), tracked)
            seen.first_at = self._optimizer_steps(seen)
            self._seen.append(seen)
        at = self._optimizer_steps(seen)
        seen.steps += 1
        seen.last_at = at
        seen.stacks[stack_of(event)] += 1

    def _optimizer_steps(self, seen: _Steps) -> int:
        return seen.tracked.steps if seen.tracked is not None and seen.tracked.reached else int(self.run.steps)

    def judge(self) -> Iterator[Judgement]:
        for seen in self._seen:
            yield self._cadence(seen)
            yield self._doubled(seen)

    def _batches(self) -> int:
        """The length of the loader that trains; 0 where there is none."""
        return self._lengths.most_common(1)[0][0] if self._lengths else 0

    def _cadence(self, seen: _Steps) -> Judgement:
        batches, horizon = self._batches(), seen.horizon
        between = (seen.last_at - seen.first_at) / max(seen.steps - 1, 1)  # optimizer steps per scheduler step
        unit = "optimizer step" if between < _TWICE else "several optimizer steps"
        return Judgement(
            "DL304",
            self.name,
            self._verdict(seen, between, horizon, batches),
            f"{seen.kind} made {seen.steps} steps, one per {unit}; its horizon is "
            f"{horizon or 'unknown'} steps, the loader has {batches or 'an unknown number of'} batches",
            "one step per batch and a horizon shorter than the loader, or one per epoch and a horizon that is a "
            "multiple of the loader's length and twice as long as the run; the reverse refutes",
            {"steps": seen.steps, "optimizer_steps_between": between, "horizon": horizon, "batches": batches},
            seen.steps,
            (seen.first_at, seen.last_at),
            tuple(seen.stacks),
            "note",
        )

    def _verdict(self, seen: _Steps, between: float, horizon: float, batches: int) -> Verdict:
        if not horizon or not batches or seen.steps < 2 or batches < ENOUGH:
            return "INCONCLUSIVE"
        if between < _TWICE:
            if seen.steps < ENOUGH:
                return "INCONCLUSIVE"
            return "CONFIRMED" if horizon < batches else "REFUTED" if horizon >= 2 * batches else "INCONCLUSIVE"
        is_in_batches = horizon >= 2 * batches and horizon % batches == 0
        is_never_over = self.run.ended_by == "end" and horizon >= 2 * seen.steps
        if is_in_batches and (is_never_over or horizon >= _MANY):
            return "CONFIRMED"
        return "REFUTED" if horizon < batches else "INCONCLUSIVE"

    def _doubled(self, seen: _Steps) -> Judgement:
        optimizer_steps = max(self._optimizer_steps(seen), 1)
        ratio = seen.steps / optimizer_steps
        few = min(optimizer_steps, seen.steps) < ENOUGH
        return Judgement(
            "DL305",
            self.name,
            "INCONCLUSIVE" if few else "CONFIRMED" if ratio >= _TWICE else "REFUTED",
            f"{seen.steps} steps of {seen.kind} in {optimizer_steps} of the optimizer",
            "1.5 or more per step of the optimizer; fewer refutes",
            {"steps": seen.steps, "optimizer_steps": optimizer_steps},
            seen.steps,
            (seen.first_at, seen.last_at),
            tuple(seen.stacks),
            "note",
        )


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
