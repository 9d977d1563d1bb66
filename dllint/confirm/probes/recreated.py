"""DL217: optimizers that are made again and again for the same parameters, so that what they remember is lost. Compares
each optimizer with the last one that was made at the same place."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import ReferenceType, ref

from torch import Tensor

from dllint.confirm.probes.base import ENOUGH, Judgements, Probe, alarm_if, decided, parameters_of
from dllint.confirm.probes.events import OptimizerCreated, Stack, stack_of
from dllint.confirm.probes.gradients import Tracked

_WITHOUT_MEMORY = ("SGD", "LBFGS")  # the first unless it has momentum


@dataclass(slots=True, eq=False)
class _Made:
    """The optimizers that were made at one place for the same parameters, one after another."""

    kind: str
    parameter: ReferenceType[Tensor]  # the first
    remembers: bool
    latest: Tracked
    number: int = 1
    steps: int = 0  # of those before the latest
    used: int = 0  # how many of these have stepped


class Recreated(Probe):
    def begin(self) -> None:
        self._made: dict[Stack, list[_Made]] = {}

    def on_optimizer_created(self, event: OptimizerCreated) -> None:
        optimizer, stack = event.optimizer, stack_of(event)
        first = next(iter(parameters_of(optimizer)), None)
        if first is None or not stack:
            return
        tracked = self.run.gradients.of(optimizer)
        known = self._made.setdefault(stack, [])
        same = next((made for made in known if made.parameter() is first), None)
        if same is None:
            remembers = tracked.kind not in _WITHOUT_MEMORY or bool(optimizer.param_groups[0].get("momentum"))
            known.append(_Made(tracked.kind, ref(first), remembers, tracked))
            return
        same.number += 1
        same.steps += same.latest.steps
        same.used += bool(same.latest.steps)
        same.latest = tracked

    def judge(self) -> Judgements:
        for stack, known in self._made.items():
            most = max(known, key=lambda made: made.used)
            used = most.used + bool(most.latest.steps)
            steps = most.steps + most.latest.steps
            if steps:
                seen, verdict = self.whole(stack, looks=used), decided(used >= ENOUGH, used == 1 and steps >= ENOUGH)
                voice = alarm_if(most.remembers and steps <= used)
                yield self.judgement("DL217", seen, verdict, "", voice, optimizer=most.kind, steps=steps)
