"""DL216: functions that drop in evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import Probe


class FunctionalDropout(Probe):
    """DL216: a function that drops though the model is in evaluation mode."""

    name = "functional_dropout"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._calls: dict[Stack, list[int]] = {}  # calls, and those that drop

    def on_dropout(self, training: bool, probability: float, outermost: nn.Module | None, stack: Stack) -> None:
        calls = self._calls.setdefault(stack, [0, 0])
        calls[0] += 1
        calls[1] += training and probability > 0

    def judge(self) -> Iterator[Judgement]:
        for stack, (calls, dropping) in self._calls.items():
            yield Judgement(
                "DL216",
                self.name,
                "CONFIRMED" if dropping == calls else "INCONCLUSIVE" if dropping else "REFUTED",
                f"{dropping} of {calls} calls in evaluation mode dropped",
                "all calls in a model that is in evaluation mode; none refutes",
                {"dropping": dropping, "calls": calls},
                calls,
                (0, self.run.steps),
                (stack,),
                "note",
            )
