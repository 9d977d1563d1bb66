"""DL209: evaluation with gradients on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import ENOUGH, BackwardCall, Probe, stack_of
from dllint.events import ModelForward


@dataclass(slots=True, eq=False)
class _Kept:
    """Calls in evaluation mode from one place."""

    without: int = 0  # with gradients off
    unused: int = 0  # with gradients on, which nothing followed
    used: int = 0
    waiting: int = 0  # with gradients on, which nothing has followed yet
    first: int = 0
    last: int = 0


class EvaluationGradients(Probe):
    """DL209: follows calls in evaluation mode until a backward pass, a derivative, or another kind of call comes."""

    name = "evaluation_gradients"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._seen: dict[Stack, _Kept] = {}
        self._waiting: dict[_Kept, None] = {}

    def on_model_forward(self, event: ModelForward[Any]) -> None:
        module: nn.Module = event.model
        stack = stack_of(event)
        if module.training:
            if self._waiting:
                self._settle(used=False)
            return
        seen = self._seen.get(stack)
        if seen is None:
            seen = self._seen[stack] = _Kept(first=self.run.steps)
        seen.last = self.run.steps
        if event.grad != "on":
            seen.without += 1
        elif any(parameter.requires_grad for parameter in module.parameters()):
            seen.waiting += 1
            self._waiting[seen] = None

    def before_backward(self, call: BackwardCall) -> None:
        if self._waiting:
            self._settle(used=True)

    def on_gap(self) -> None:
        for seen in self._waiting:  # something may have followed
            seen.waiting = 0
        self._waiting = {}

    def on_derivative(self) -> None:
        self._settle(used=True)

    def _settle(self, *, used: bool) -> None:
        for seen in self._waiting:
            seen.used += seen.waiting if used else 0
            seen.unused += 0 if used else seen.waiting
            seen.waiting = 0
        self._waiting = {}

    def judge(self) -> Iterator[Judgement]:
        self._settle(used=self.run.ended_by not in ("end", "exception"))
        for stack, seen in self._seen.items():
            if not seen.unused and not seen.without:
                continue
            is_wrong = seen.unused >= ENOUGH and not seen.used
            is_good = seen.without >= ENOUGH and not seen.unused
            yield Judgement(
                "DL209",
                self.name,
                "CONFIRMED" if is_wrong else "REFUTED" if is_good else "INCONCLUSIVE",
                f"{seen.unused} calls in evaluation mode kept what a backward pass needs, and none came; "
                f"{seen.without} had gradients off",
                "3 or more calls with gradients on, none of which a backward pass follows; 3 or more without refute",
                {"unused": seen.unused, "without": seen.without, "used": seen.used},
                seen.unused + seen.without,
                (seen.first, seen.last),
                (stack,),
                "note",
            )
