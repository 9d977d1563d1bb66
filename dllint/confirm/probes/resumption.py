"""DL711, DL713 and DL714: what a run that restores the state of an optimizer does not take up with it: the epoch, the
schedule, the scale. Where no state of an optimizer is restored, the run begins anew, and is not looked at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from torch.optim import Optimizer, lr_scheduler

from dllint.confirm.evidence import Judgement, Stack, Verdict, Voice
from dllint.confirm.probes.base import Probe, stack_of
from dllint.confirm.probes.contents import has_optimizer
from dllint.events import ScalerUnscale, SchedulerStep, StateRead, StateRestored, StateSaved

_COUNTER = re.compile(r"(start_|last_|current_|global_)?(epoch|step|iter|iters|iteration|it)s?(_num|_no)?$")
_FRESH = 2  # steps of a scheduler, up to which it cannot have been restored
_STEADY = ("ReduceLROnPlateau", "ConstantLR")


@dataclass(slots=True)
class _Taken:
    """What is taken up or not: whether it was restored, and where it was met."""

    what: str
    is_restored: bool
    stacks: tuple[Stack, ...]


@dataclass(slots=True)
class _Counters:
    """The counters of a checkpoint that was read, and those of the first one saved afterwards."""

    read: dict[str, int]
    stack: Stack
    saved: dict[str, int] = field(default_factory=dict)


class Resumption(Probe):
    """Watches what is restored, and what is used afterwards."""

    name = "resumption"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._optimizers: WeakKeyDictionary[Optimizer, Stack] = WeakKeyDictionary()  # and where
        self._restored: WeakSet[Any] = WeakSet()  # schedulers and scalers
        self._met: WeakSet[Any] = WeakSet()
        self._taken: list[tuple[str, _Taken]] = []
        self._read: _Counters | None = None
        self._is_resumed = False

    def on_state_read(self, event: StateRead[Any]) -> None:
        content: Any = event.result
        counters = counters_of(content)
        if counters and has_optimizer(content) and self._read is None:
            self._read = _Counters(counters, stack_of(event))

    def on_state_restored(self, event: StateRestored[Any]) -> None:
        owner: Any = event.target
        state: Any = event.state
        if not isinstance(owner, Optimizer):
            self._restored.add(owner)
        elif isinstance(state, dict) and state.get("state") and not self._steps_of(owner):
            self._optimizers[owner] = stack_of(event)
            self._is_resumed = True

    def _steps_of(self, optimizer: Optimizer) -> int:
        return self.run.gradients.of(optimizer).steps

    def on_scheduler_step(self, event: SchedulerStep[Any]) -> None:
        scheduler: Any = event.scheduler
        optimizer = getattr(scheduler, "optimizer", None)
        if event.arguments.all() or scheduler in self._met or not isinstance(optimizer, Optimizer):
            return
        place = self._optimizers.get(optimizer)
        if place is None:
            return
        self._met.add(scheduler)
        is_known = isinstance(scheduler, lr_scheduler.LRScheduler) and type(scheduler).__name__ not in _STEADY
        is_restored = scheduler in self._restored
        if is_known and (is_restored or scheduler.last_epoch <= _FRESH):
            self._taken.append(("DL713", _Taken(type(scheduler).__name__, is_restored, (stack_of(event), place))))

    def on_scaler_unscale(self, event: ScalerUnscale[Any]) -> None:
        scaler: Any = event.scaler
        optimizer: Any = event.optimizer
        place = self._optimizers.get(optimizer)
        if place is not None and scaler.is_enabled() and scaler not in self._met:
            self._met.add(scaler)
            taken = _Taken(type(scaler).__name__, scaler in self._restored, (place,))
            self._taken.append(("DL714", taken))

    def on_state_saved(self, event: StateSaved[Any]) -> None:
        if self._read is not None and self._is_resumed and not self._read.saved and self.run.steps:
            self._read.saved = counters_of(event.content)

    def judge(self) -> Iterator[Judgement]:
        for rule, taken in self._taken:
            what = (
                "was restored with the optimizer" if taken.is_restored else "starts again, and the optimizer does not"
            )
            yield self._judgement(
                rule,
                "REFUTED" if taken.is_restored else "CONFIRMED",
                f"{taken.what} {what}",
                "used with an optimizer whose state was restored, and not restored; restored refutes",
                {"restored": taken.is_restored},
                taken.stacks,
                "note",
            )
        if self._read is not None and self._is_resumed:
            yield self._counted(self._read)

    def _counted(self, counters: _Counters) -> Judgement:
        """DL711."""
        common = [name for name in counters.read if name in counters.saved]
        back = counted_back(counters.read, counters.saved)
        told = ", ".join(f"`{name}` {counters.read[name]} and {counters.saved[name]}" for name in back or common)
        verdict: Verdict = "CONFIRMED" if back else "REFUTED" if common else "INCONCLUSIVE"
        if not common:
            told = "none that is in both, or nothing was saved afterwards"
        return self._judgement(
            "DL711",
            verdict,
            f"what was read and what was saved next counts {told}",
            "less than what was read with the optimizer's state, and nothing more; else refuted",
            {"read": counters.read, "saved": counters.saved},
            (counters.stack,),
            "alarm",
        )

    def _judgement(
        self,
        rule: str,
        verdict: Verdict,
        what: str,
        threshold: str,
        found: dict[str, Any],
        stacks: tuple[Stack, ...],
        voice: Voice,
    ) -> Judgement:
        return Judgement(rule, self.name, verdict, what, threshold, found, 1, (0, self.run.steps), stacks, voice)


def counted_back(before: dict[str, int], after: dict[str, int]) -> list[str]:
    """The counters that are lower than before, where none is higher, as that of steps is when an epoch is over."""
    common = before.keys() & after.keys()
    is_ahead = any(after[name] > before[name] for name in common)
    return [] if is_ahead else sorted(name for name in common if after[name] < before[name])


def counters_of(content: Any) -> dict[str, int]:
    """The counters of epochs and steps in a checkpoint, by name."""
    if not isinstance(content, dict):
        return {}
    return {
        str(name): value
        for name, value in content.items()
        if isinstance(name, str) and _COUNTER.match(name) and isinstance(value, int) and value > 0
    }
