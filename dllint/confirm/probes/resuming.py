"""Notes what a run trains with, step by step, so that dllint can tell whether a second one continues it."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from torch.optim import Optimizer

from dllint.confirm.evidence import Moment
from dllint.confirm.probes.base import Probe

_PARAMETERS, _ELEMENTS = 64, 8  # of an optimizer and of each parameter that are noted


class Course(Probe):
    """Notes weights, learning rates and state of the first optimizer, before each step and after the last."""

    name = "course"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._steps: WeakKeyDictionary[Optimizer, int] = WeakKeyDictionary()
        self._has_first = False

    def on_step_start(self, optimizer: Optimizer) -> None:
        if optimizer not in self._steps:
            if self._has_first:
                return
            self._steps[optimizer] = 0
            self._has_first = True
            self.run.moments.append(_moment(optimizer, 0))

    def on_step_end(self, optimizer: Optimizer, stack: Any) -> None:
        if optimizer in self._steps:
            self._steps[optimizer] += 1
            self.run.moments.append(_moment(optimizer, self._steps[optimizer]))

    def on_scheduler(self, scheduler: Any, explicit: bool, stack: Any) -> None:
        optimizer = getattr(scheduler, "optimizer", None)
        if isinstance(optimizer, Optimizer) and optimizer in self._steps:
            self.run.moments[-1].rates = _rates(optimizer)


def _moment(optimizer: Optimizer, step: int) -> Moment:
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    chosen = parameters[:: max(1, len(parameters) // _PARAMETERS)][:_PARAMETERS]
    values = torch.cat([_sample(parameter) for parameter in chosen]).tolist() if chosen else []
    states = sum(bool(optimizer.state.get(parameter)) for parameter in parameters)
    return Moment(step, values, _rates(optimizer), states)


def _rates(optimizer: Optimizer) -> list[float]:
    return [float(group.get("lr", 0.0)) for group in optimizer.param_groups]


def _sample(parameter: Tensor) -> Tensor:
    flat = parameter.detach().reshape(-1)
    return flat[:: max(1, flat.numel() // _ELEMENTS)][:_ELEMENTS].float().cpu()
