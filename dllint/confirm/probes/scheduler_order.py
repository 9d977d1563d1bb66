"""DL303: whether the optimizer steps first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from weakref import WeakSet

from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import Probe, stack_of
from dllint.confirm.probes.gradients import Tracked
from dllint.events import ScalerUpdate, SchedulerStep


class SchedulerOrder(Probe):
    """DL303: a scheduler that steps before its optimizer has."""

    name = "scheduler_order"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._first: list[tuple[str, Stack, int, Tracked]] = []  # the first step of each scheduler
        self._known: WeakSet[Any] = WeakSet()
        self._skipping = False

    def on_scaler_update(self, event: ScalerUpdate[Any]) -> None:
        self._skipping = self._skipping or self.run.steps == 0

    def on_scheduler_step(self, event: SchedulerStep[Any]) -> None:
        scheduler: Any = event.scheduler
        optimizer = getattr(scheduler, "optimizer", None)
        if (
            bool(event.arguments.all())
            or isinstance(scheduler, ReduceLROnPlateau)
            or self._skipping
            or scheduler in self._known
        ):
            return
        if isinstance(optimizer, Optimizer):
            tracked = self.run.gradients.of(optimizer)
            self._known.add(scheduler)
            self._first.append((type(scheduler).__name__, stack_of(event), tracked.steps, tracked))

    def judge(self) -> Iterator[Judgement]:
        for kind, stack, steps, tracked in self._first:
            if not tracked.steps:
                continue  # it never stepped, or something else steps in its place
            yield Judgement(
                "DL303",
                self.name,
                "REFUTED" if steps else "CONFIRMED",
                f"the optimizer had made {steps} steps when {kind} stepped first",
                "0 steps of the optimizer before the first of the scheduler",
                {"scheduler": kind, "optimizer_steps": steps},
                1,
                (steps, steps),
                (stack,),
                "alarm",
            )
