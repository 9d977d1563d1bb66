"""Loss and learning rate over the run."""

from __future__ import annotations

from dllint.confirm.probes.base import Probe, events

_MOST = 2000  # numbers in a trace


class Traces(Probe):
    _count = 0

    def before_backward(self, call: events.BackwardCall) -> None:
        self._count += 1
        if self.is_sampled(self._count, 100) and self._count < _MOST and call.value is not None:  # which is read there
            self.run.trace("loss", call.value)

    def on_optimizer_step(self, event: events.OptimizerStep) -> None:
        self.run.trace("lr", float(event.optimizer.param_groups[0].get("lr", 0.0)))
