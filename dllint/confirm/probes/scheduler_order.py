"""DL303: a scheduler that steps before its optimizer has."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from dllint.confirm.probes.base import Judgements, Probe, Samples, decided
from dllint.confirm.probes.events import ScalerUpdate, SchedulerStep, Stack, stack_of
from dllint.confirm.probes.gradients import Tracked


class SchedulerOrder(Probe):
    def begin(self) -> None:
        self._first: list[tuple[str, Stack, int, Tracked]] = []  # the first step of each scheduler
        self._known: WeakSet[Any] = WeakSet()
        self._skipping = False

    def on_scaler_update(self, event: ScalerUpdate) -> None:
        self._skipping = self._skipping or self.run.steps == 0

    def on_scheduler_step(self, event: SchedulerStep) -> None:
        scheduler = event.scheduler
        optimizer = getattr(scheduler, "optimizer", None)
        is_other = bool(event.arguments.all()) or isinstance(scheduler, ReduceLROnPlateau) or self._skipping
        if not is_other and scheduler not in self._known and isinstance(optimizer, Optimizer):
            tracked = self.run.gradients.of(optimizer)
            self._known.add(scheduler)
            self._first.append((type(scheduler).__name__, stack_of(event), tracked.steps, tracked))

    def judge(self) -> Judgements:
        for kind, stack, steps, tracked in self._first:
            if tracked.steps:  # else it never stepped, or something else steps in its place
                seen = Samples(stacks=(stack,), first=steps, last=steps, looks=1)
                found = {"scheduler": kind, "optimizer_steps": steps}
                yield self.judgement("DL303", seen, decided(not steps, True), **found)
