"""Whether a loop can learn one batch."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import median

from torch.nn.modules.dropout import _DropoutNd

from dllint.confirm.probes.base import Judgements, Probe, decided, events
from dllint.confirm.probes.gradients import Tracked

_LEARNT, _NOT_LEARNT = 0.3, 0.5  # of the first loss
_STEADY, _ON = 0.8, 0.1  # of the last quarter's steps, and of the way, that the loss falls in it
_FEWEST = 50  # steps from which it counts that a batch is not learned


class Losses(Probe):
    """Collects the loss of each step."""

    losses: list[float] = []
    optimizers: set[Tracked] = set()
    _pending: float | None = None

    def before_backward(self, call: events.BackwardCall) -> None:
        self._pending = call.value if self._pending is None else self._pending

    def on_optimizer_step(self, event: events.OptimizerStep) -> None:
        self.optimizers.add(self.run.gradients.of(event.optimizer))
        self.losses.append(math.nan if self._pending is None else self._pending)
        self._pending = None


class Overfit(Losses):
    def on_model_forward(self, event: events.ModelForward) -> None:
        for layer in event.model.modules():
            if isinstance(layer, _DropoutNd):
                layer.p = 0.0

    def before_optimizer_step(self, event: events.OptimizerStep) -> None:
        for group in event.optimizer.param_groups:
            if "weight_decay" in group:
                group["weight_decay"] = 0.0

    def judge(self) -> Judgements:
        losses = [loss for loss in self.losses if math.isfinite(loss)]
        if len(losses) < 2:
            return
        first, last = losses[0], median(losses[-5:])
        doubt = ", but several optimizers take turns" if len(self.optimizers) > 1 else ""
        if not self.run.frozen_batches:
            doubt = ", but no data loader gave batches that could be kept"
        is_clear = first > 0 and not doubt
        is_stuck = last >= _NOT_LEARNT * first and len(self.losses) >= _FEWEST and not _still_fall(losses)
        found = {"first": first, "last": last, "steps": len(losses), "frozen": self.run.frozen_batches}
        verdict = decided(is_clear and is_stuck, is_clear and last <= _LEARNT * first)
        yield self.judgement("overfit-one-batch", self.whole(looks=len(losses)), verdict, doubt, **found)
        for loss in self.losses:
            self.run.trace("loss on one batch", loss)


def _still_fall(losses: list[float]) -> bool:
    """Whether losses fall on at the end, step by step: it is learned, though slowly."""
    late = losses[-(len(losses) // 4) :]
    steady = sum(after < before for before, after in pairwise(late)) >= _STEADY * (len(late) - 1)
    return steady and late[0] - late[-1] >= _ON * (losses[0] - losses[-1])
