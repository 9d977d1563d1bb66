"""Notes what a run trains with, step by step, so that dllint can tell whether a second one continues it."""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

import torch

from dllint.confirm.evidence import Moment
from dllint.confirm.inside.parts import some
from dllint.confirm.probes.base import Optimizer, Probe, events, parameters_of
from dllint.confirm.probes.resumption import counters_of

_PARAMETERS, _ELEMENTS = 64, 8  # of an optimizer and of each parameter that are noted
_SAMPLES = 64  # of a batch


class Course(Probe):
    _followed: WeakSet[Optimizer] = WeakSet()  # the first one
    _scale = 0.0
    _batch: list[int] = []
    _place: list[int] = []

    def on_batch(self, batches: events.Batches, batch: Any) -> None:
        self._batch = [index for index in batches.latest() if isinstance(index, int)][:_SAMPLES]
        self._place = [batches.number, batches.taken]

    def on_scale(self, scaler: Any, scaled: Any) -> None:
        self._scale = float(scaler.get_scale()) if scaler.is_enabled() else 0.0

    def on_state_saved(self, event: events.StateSaved) -> None:
        if self.run.record.moments:
            self.run.record.moments[-1].counters = counters_of(event.content)

    def before_optimizer_step(self, event: events.OptimizerStep) -> None:
        if not self.run.record.moments:
            self._followed.add(event.optimizer)
            self._note(event.optimizer)

    def on_optimizer_step(self, event: events.OptimizerStep) -> None:
        if event.optimizer in self._followed:
            self._note(event.optimizer)

    def on_scheduler_step(self, event: events.SchedulerStep) -> None:
        if getattr(event.scheduler, "optimizer", None) in self._followed:
            self.run.record.moments[-1].rates = _rates(event.scheduler.optimizer)

    def _note(self, optimizer: Optimizer) -> None:
        moments, parameters = self.run.record.moments, parameters_of(optimizer)
        chosen = parameters[:: max(1, len(parameters) // _PARAMETERS)][:_PARAMETERS]
        elements = [some(parameter, _ELEMENTS).float().cpu() for parameter in chosen]
        values = torch.cat(elements).tolist() if elements else []
        states = sum(bool(optimizer.state.get(parameter)) for parameter in parameters)
        moments.append(Moment(len(moments), values, _rates(optimizer), states, self._scale, self._batch, self._place))


def _rates(optimizer: Optimizer) -> list[float]:
    return [float(group.get("lr", 0.0)) for group in optimizer.param_groups]
