"""Notes what a run trains with, step by step, so that dllint can tell whether a second one continues it."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch

from dllint.confirm.evidence import Moment
from dllint.confirm.inside.parts import some
from dllint.confirm.probes.base import Optimizer, Probe, events, parameters_of
from dllint.confirm.probes.resumption import counters_of

_PARAMETERS, _ELEMENTS = 64, 8  # of an optimizer and of each parameter that are noted
_SAMPLES = 64  # of a batch


class Course(Probe):
    _steps: WeakKeyDictionary[Optimizer, int] = WeakKeyDictionary()
    _has_first = False
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
        optimizer: Optimizer = event.optimizer
        if optimizer not in self._steps:
            if self._has_first:
                return
            self._steps[optimizer] = 0
            self._has_first = True
            self._note(optimizer, 0)

    def on_optimizer_step(self, event: events.OptimizerStep) -> None:
        optimizer: Optimizer = event.optimizer
        if optimizer in self._steps:
            self._steps[optimizer] += 1
            self._note(optimizer, self._steps[optimizer])

    def on_scheduler_step(self, event: events.SchedulerStep) -> None:
        optimizer = getattr(event.scheduler, "optimizer", None)
        if isinstance(optimizer, Optimizer) and optimizer in self._steps:
            self.run.record.moments[-1].rates = _rates(optimizer)

    def _note(self, optimizer: Optimizer, step: int) -> None:
        parameters = parameters_of(optimizer)
        chosen = parameters[:: max(1, len(parameters) // _PARAMETERS)][:_PARAMETERS]
        elements = [some(parameter, _ELEMENTS).float().cpu() for parameter in chosen]
        values = torch.cat(elements).tolist() if elements else []
        states = sum(bool(optimizer.state.get(parameter)) for parameter in parameters)
        moment = Moment(step, values, _rates(optimizer), states, self._scale, self._batch, self._place)
        self.run.record.moments.append(moment)


def _rates(optimizer: Optimizer) -> list[float]:
    return [float(group.get("lr", 0.0)) for group in optimizer.param_groups]
