"""DL217: optimizers that are made again and again for the same parameters, so that what they remember is lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import ReferenceType, ref

from torch import Tensor
from torch.optim import Optimizer

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import ENOUGH, Probe, stack_of
from dllint.confirm.probes.gradients import Tracked
from dllint.events import OptimizerCreated

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
    """Compares each optimizer with the last one that was made at the same place."""

    name = "recreated"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._made: dict[Stack, list[_Made]] = {}

    def on_optimizer_created(self, event: OptimizerCreated[Any]) -> None:
        optimizer: Optimizer = event.optimizer
        stack = stack_of(event)
        first = next((p for group in optimizer.param_groups for p in group["params"]), None)
        if first is None or not stack:
            return
        tracked = self.run.gradients.of(optimizer)
        known = self._made.setdefault(stack, [])
        same = next((made for made in known if made.parameter() is first), None)
        if same is None:
            group = optimizer.param_groups[0]
            remembers = type(optimizer).__name__ not in _WITHOUT_MEMORY or bool(group.get("momentum"))
            known.append(_Made(type(optimizer).__name__, ref(first), remembers, tracked))
            return
        same.number += 1
        same.steps += same.latest.steps
        same.used += bool(same.latest.steps)
        same.latest = tracked

    def judge(self) -> Iterator[Judgement]:
        for stack, known in self._made.items():
            most = max(known, key=lambda made: made.used)
            used = most.used + bool(most.latest.steps)
            steps = most.steps + most.latest.steps
            if not steps:
                continue
            is_again = used >= ENOUGH
            yield Judgement(
                "DL217",
                self.name,
                "CONFIRMED" if is_again else "REFUTED" if used == 1 and steps >= ENOUGH else "INCONCLUSIVE",
                f"{used} of {most.kind} were made here for the same parameters, with {steps} steps in all",
                "3 or more for the same parameters that step; one that makes 3 or more steps refutes",
                {"made": most.number, "used": used, "steps": steps, "optimizer": most.kind},
                used,
                (0, self.run.steps),
                (stack,),
                "alarm" if most.remembers and steps <= used else "note",
            )
