"""DL711, DL713 and DL714: what a run that restores the state of an optimizer does not take up with it: the epoch, the
schedule, the scale. Where no state of an optimizer is restored, the run begins anew, and is not looked at."""

from __future__ import annotations

import re
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from torch.optim import lr_scheduler

from dllint.confirm.evidence import counted_back
from dllint.confirm.inside.parts import has_optimizer
from dllint.confirm.probes.base import Judgements, Optimizer, Probe, Stack, decided, events, stack_of

_COUNTER = re.compile(r"(start_|last_|current_|global_)?(epoch|step|iter|iters|iteration|it)s?(_num|_no)?$")
_FRESH = 2  # steps of a scheduler, up to which it cannot have been restored
_STEADY = ("ReduceLROnPlateau", "ConstantLR")
_NONE = "none that is in both, or nothing was saved"


class Resumption(Probe):
    _optimizers: WeakKeyDictionary[Optimizer, Stack] = WeakKeyDictionary()  # and where
    _restored: WeakSet[Any] = WeakSet()  # schedulers and scalers
    _read: dict[str, int] = {}  # the counters of a checkpoint that was read,
    _read_at: Stack = ()
    _saved: dict[str, int] = {}  # and those of the first one saved afterwards
    _is_resumed = False

    def on_state_read(self, event: events.StateRead) -> None:
        counters = counters_of(event.result)
        if counters and has_optimizer(event.result) and not self._read:
            self._read, self._read_at = counters, stack_of(event)

    def on_state_restored(self, event: events.StateRestored) -> None:
        owner, state = event.target, event.state
        if not isinstance(owner, Optimizer):
            self._restored.add(owner)
        elif isinstance(state, dict) and state.get("state") and not self.run.gradients.of(owner).steps:
            self._optimizers[owner] = stack_of(event)
            self._is_resumed = True

    def on_scheduler_step(self, event: events.SchedulerStep) -> None:
        scheduler = event.scheduler
        optimizer = getattr(scheduler, "optimizer", None)
        place = self._optimizers.get(optimizer) if isinstance(optimizer, Optimizer) else None
        if event.arguments.all() or place is None or not self.is_new(scheduler):
            return
        is_known = isinstance(scheduler, lr_scheduler.LRScheduler) and type(scheduler).__name__ not in _STEADY
        is_restored = scheduler in self._restored
        if is_known and (is_restored or scheduler.last_epoch <= _FRESH):
            self.judge_now("DL713", self.now(stack_of(event), place), not is_restored, kind=type(scheduler).__name__)

    def on_scaler_unscale(self, event: events.ScalerUnscale) -> None:
        scaler = event.scaler
        place = self._optimizers.get(event.optimizer) if event.optimizer is not None else None
        if place is not None and scaler.is_enabled() and self.is_new(scaler):
            self.judge_now("DL714", self.now(place), scaler not in self._restored, kind=type(scaler).__name__)

    def on_state_saved(self, event: events.StateSaved) -> None:
        if self._read and self._is_resumed and not self._saved and self.run.steps:
            self._saved = counters_of(event.content)

    def judge(self) -> Judgements:
        yield from super().judge()
        if self._read and self._is_resumed:
            common = [name for name in self._read if name in self._saved]
            back = counted_back(self._read, self._saved)
            told = ", ".join(f"`{name}` {self._read[name]} and {self._saved[name]}" for name in back or common)
            told = f"what was read and what was saved next counts {told or _NONE}"
            found = {"read": self._read, "saved": self._saved}
            yield self.judgement("DL711", self.whole(self._read_at), decided(back, common), told, **found)


def counters_of(content: Any) -> dict[str, int]:
    """The counters of epochs and steps in a checkpoint, by name."""
    if not isinstance(content, dict):
        return {}
    return {
        str(name): value
        for name, value in content.items()
        if isinstance(name, str) and _COUNTER.match(name) and isinstance(value, int) and value > 0
    }
