"""When schedulers step first (DL303), and how often, compared with their own horizon, the epochs and the optimizer
(DL304, DL305); what they are told and asked: metrics that go the wrong way (DL315), and rates not in use (DL313)."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from statistics import mean
from typing import Any

from torch.optim.lr_scheduler import ReduceLROnPlateau

from dllint.confirm.probes.base import ENOUGH, Judgements, ObjectProbe, Optimizer, Samples, Verdict, decided, events
from dllint.confirm.probes.events import Stack, stack_of
from dllint.confirm.probes.gradients import Tracked

_HORIZONS = ("total_steps", "T_max", "total_iters", "step_size", "total_size")
_WARMING_UP = ("LinearLR", "ConstantLR", "SequentialLR")
_TWICE = 1.5  # steps of the scheduler per step of the optimizer, from which it is stepped twice
_MANY = 1000  # epochs, which few runs have
_LEFT = 0.01  # share of the learning rate at which an exponential schedule counts as over
_LOSSES = 10  # backward passes after each metric whose losses are read
_METRICS = 4  # from which they have a trend
_MOST = 75  # percent of the changes that go the same way
_BOUNDS = (1.0, 100.0)  # of what is to grow, as a share or in percent


class _Scheduler(Samples):
    """The steps of one scheduler; wrong are calls of its ``get_lr`` that returned other rates than those in use."""

    horizon: float = 0.0
    tracked: Tracked | None = None  # of its optimizer, the steps of which ``first`` and ``last`` are
    before: int | None = None  # steps of that at the first of them; None where a scaler may have skipped some
    places: dict[Stack, None] = {}
    mode: str = "min"
    values: list[float] = []  # metrics that it was told
    losses: list[list[float]] = []  # of training after each
    missing: int = 0  # metrics
    asked: dict[Stack, None] = {}  # where its ``get_lr`` was called
    returned: float = 0.0  # by the last that was wrong
    used: float = 0.0  # when it was called


class Schedulers(ObjectProbe[_Scheduler]):
    _lengths: Counter[int] = Counter()  # of loaders: how many of their batches were followed by gradients
    _skipping = False

    def describe(self, thing: Any, *place: Stack) -> _Scheduler:
        optimizer, mode = getattr(thing, "optimizer", None), str(getattr(thing, "mode", "min"))
        tracked = self.run.gradients.of(optimizer) if isinstance(optimizer, Optimizer) else None
        return _Scheduler(what=type(thing).__name__, horizon=_horizon(thing), tracked=tracked, mode=mode)

    def _optimizer_steps(self, tracked: Tracked | None) -> int:
        return tracked.steps if tracked is not None and tracked.reached else self.run.steps

    def on_scaler_update(self, event: events.ScalerUpdate) -> None:
        self._skipping = self._skipping or self.run.steps == 0

    def before_backward(self, call: events.BackwardCall) -> None:
        if call.batches is not None:
            try:
                self._lengths[len(call.batches.loader)] += 1
            except TypeError:  # a loader of an iterable dataset without a length, or one that is gone
                self._lengths[0] += 1
        for seen in self.known.values() if self.seen else ():  # of schedulers that still exist
            if seen is not None and seen.losses and len(seen.losses[-1]) < _LOSSES and call.value is not None:
                seen.losses[-1].append(call.value)

    def on_scheduler_step(self, event: events.SchedulerStep) -> None:
        if isinstance(event.scheduler, ReduceLROnPlateau) or bool(event.arguments.all()):
            return
        seen = self.of(event.scheduler)
        if seen is not None:
            seen.last = self._optimizer_steps(seen.tracked)
            if not seen.looks:
                seen.first, seen.before = seen.last, seen.tracked.steps if seen.tracked and not self._skipping else None
            seen.count()
            seen.places.setdefault(stack_of(event))

    def on_plateau(self, scheduler: Any, metric: float | None, stack: Stack) -> None:
        seen = self.of(scheduler)
        if seen is not None:
            seen.places.setdefault(stack)
            seen.missing += metric is None
            seen.values += [] if metric is None else [metric]
            seen.losses += [] if metric is None else [[]]

    def on_rates_asked(self, scheduler: Any, rates: list[float], stack: Stack) -> None:
        seen = self.of(scheduler)
        if seen is not None:
            used = [float(group["lr"]) for group in scheduler.optimizer.param_groups]
            differing = [pair for pair in zip(rates, used, strict=False) if not math.isclose(*pair, rel_tol=1e-6)]
            seen.asked.setdefault(stack)
            seen.calls += 1
            seen.wrong += bool(differing)
            seen.returned, seen.used = differing[0] if differing else (seen.returned, seen.used)

    def judge_each(self, seen: _Scheduler) -> Judgements:
        seen.stacks = tuple(seen.places)
        if seen.looks:
            yield from self._cadence(seen)
        if seen.values or seen.missing:
            told = Samples((), seen.stacks, looks=len(seen.values) + seen.missing, last=self.run.steps)
            moved = "was not given"
            if seen.values:
                moved = f"went from {seen.values[0]:.3g} to {seen.values[-1]:.3g} in {len(seen.values)} calls"
            how = f"{moved}, where mode '{seen.mode}' waits for it to {'grow' if seen.mode == 'max' else 'fall'}"
            yield self.judgement("DL315", told, _verdict(seen), how, values=seen.values, missing=seen.missing)
        if seen.calls:
            asked = Samples((), tuple(seen.asked), looks=seen.calls, wrong=seen.wrong, what=seen.what)
            such = f", such as {seen.returned:.3g} for {seen.used:.3g}" if seen.wrong else ""
            yield self.judgement("DL313", asked, decided(seen.wrong, seen.calls >= ENOUGH), such)

    def _cadence(self, seen: _Scheduler) -> Judgements:
        batches = self._lengths.most_common(1)[0][0] if self._lengths else 0  # of the loader that trains
        between = (seen.last - seen.first) / max(seen.looks - 1, 1)  # optimizer steps per scheduler step
        unit = "optimizer step" if between < _TWICE else "several optimizer steps"
        told = f"one per {unit}; its horizon is {seen.horizon or 'unknown'} steps, the loader has "
        told += f"{batches or 'an unknown number of'} batches"
        verdict, horizon = self._fit(seen, between, batches), {"horizon": seen.horizon}
        steps = Samples((), seen.stacks, seen.first, seen.last, looks=seen.looks, what=seen.what)
        yield self.judgement("DL304", steps, verdict, told, optimizer_steps_between=between, batches=batches, **horizon)
        if seen.before is not None and seen.tracked is not None and seen.tracked.steps:  # else something else steps
            place = Samples((), seen.stacks[:1], seen.before, seen.before, looks=1, what=seen.what)
            yield self.judgement("DL303", place, decided(not seen.before, True), before=seen.before)
        made = max(self._optimizer_steps(seen.tracked), 1)
        is_enough = min(made, seen.looks) >= ENOUGH
        verdict = decided(is_enough and seen.looks / made >= _TWICE, is_enough)
        yield self.judgement("DL305", steps, verdict, steps=seen.looks, optimizer_steps=made)

    def _fit(self, seen: _Scheduler, between: float, batches: int) -> Verdict:
        """The verdict on the horizon."""
        horizon = seen.horizon
        if not horizon or seen.looks < 2 or batches < ENOUGH or (between < _TWICE and seen.looks < ENOUGH):
            return "INCONCLUSIVE"
        if between < _TWICE:
            return decided(horizon < batches, horizon >= 2 * batches)
        is_in_batches = horizon >= 2 * batches and horizon % batches == 0
        is_never_over = self.run.ended_by == "end" and horizon >= 2 * seen.looks
        return decided(is_in_batches and (is_never_over or horizon >= _MANY), horizon < batches and not is_never_over)


def _horizon(scheduler: Any) -> float:
    """The steps that a schedule is made for; 0 where it does not say, or only warms up."""
    values = (getattr(scheduler, name, None) for name in _HORIZONS)
    known = [float(value) for value in values if isinstance(value, (int, float)) and value > 0]
    known += map(float, sorted(getattr(scheduler, "milestones", None) or ())[-1:])
    gamma = getattr(scheduler, "gamma", None)
    known += [math.log(_LEFT) / math.log(gamma)] if isinstance(gamma, float) and 0 < gamma < 1 else []
    return known[0] if known and type(scheduler).__name__ not in _WARMING_UP else 0.0


def _verdict(known: _Scheduler) -> Verdict:
    if known.missing and not known.values:
        return "CONFIRMED"
    way = 1 if known.mode == "max" else -1  # that the metric is to go
    losses = [mean(part) for part in known.losses if part]
    is_share = any(all(0 <= value <= bound for value in known.values) for bound in _BOUNDS)
    may_be_meant = known.mode == "min" and not is_share
    learns = len(losses) > 1 and losses[-1] < losses[0]
    is_wrong = len(known.values) >= _METRICS and _go(known.values, -way) and learns and not may_be_meant
    return decided(is_wrong, len(known.values) >= ENOUGH and _go(known.values, way))


def _go(values: list[float], way: int) -> bool:
    """Whether numbers go up (1) or down (-1) all in all, and in most of their changes."""
    changes = [way * (after - before) for before, after in pairwise(values) if after != before]  # as of the best so far
    most = sum(change > 0 for change in changes)
    return len(changes) > 1 and 100 * most >= _MOST * len(changes) and way * (values[-1] - values[0]) > 0
