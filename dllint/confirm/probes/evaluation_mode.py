"""DL207: layers that train in evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import ENOUGH, Probe, stack_of
from dllint.events import ModelForward


@dataclass(slots=True)
class _Calls:
    """Calls from one place, by whether gradients were on."""

    evaluating: int = 0  # with gradients off
    wrong: int = 0  # those of them in which some layer behaved as in training
    training: int = 0  # with gradients on
    layers: int = 0  # that behave differently in training
    first: int = 0
    last: int = 0


class EvaluationMode(Probe):
    """DL207: looks at the layers that differ between the modes whenever a model is called without gradients."""

    name = "evaluation_mode"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._calls: dict[Stack, _Calls] = {}

    def on_model_forward(self, event: ModelForward[Any]) -> None:
        calls = self._calls.setdefault(stack_of(event), _Calls(first=self.run.steps))
        calls.last = self.run.steps
        if event.grad == "on":
            calls.training += 1
            return
        layers = [part for part in event.model.modules() if _is_modal(part)]
        calls.evaluating += 1
        calls.layers = max(calls.layers, len(layers))
        calls.wrong += any(layer.training for layer in layers)

    def judge(self) -> Iterator[Judgement]:
        for stack, calls in self._calls.items():
            if not calls.evaluating:
                continue
            confirmed = calls.wrong == calls.evaluating
            yield Judgement(
                "DL207",
                self.name,
                "CONFIRMED" if confirmed else "INCONCLUSIVE" if calls.wrong else "REFUTED",
                f"{calls.wrong} of {calls.evaluating} calls without gradients ran dropout or batch norm as in training "
                f"({calls.layers} such layers)",
                "all calls without gradients from this place; none refutes",
                {"wrong": calls.wrong, "calls": calls.evaluating, "layers": calls.layers},
                calls.evaluating,
                (calls.first, calls.last),
                (stack,),
                "note" if calls.evaluating >= ENOUGH else "",
            )


def _is_modal(layer: nn.Module) -> bool:
    if isinstance(layer, _DropoutNd):
        return layer.p > 0
    return isinstance(layer, _BatchNorm) and layer.track_running_stats
