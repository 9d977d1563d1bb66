"""Loss, learning rate and scale over the run."""

from __future__ import annotations

from typing import Any

from dllint.confirm.probes.base import BackwardCall, Probe
from dllint.events import OptimizerStep, ScalerUpdate

_MOST = 2000  # numbers in a trace


class Traces(Probe):
    """Numbers over the run: the loss that is sent backward, the learning rate, and the scale."""

    name = "traces"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._count = 0

    def before_backward(self, call: BackwardCall) -> None:
        self._count += 1
        few = self._count <= 100 or self._count % self.run.every == 0  # each reads a number from the device
        if few and self._count < _MOST and call.value is not None:
            self.run.trace("loss", call.value)

    def on_optimizer_step(self, event: OptimizerStep[Any]) -> None:
        self.run.trace("lr", float(event.optimizer.param_groups[0].get("lr", 0.0)))

    def on_scaler_update(self, event: ScalerUpdate[Any]) -> None:
        scaler: Any = event.scaler
        if scaler.is_enabled():
            self.run.trace("scale", float(scaler.get_scale()))
