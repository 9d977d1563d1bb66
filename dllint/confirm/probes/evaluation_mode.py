"""DL207: layers that train in evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import ENOUGH, PlaceProbe, Samples, stack_of
from dllint.events import ModelForward


@dataclass(slots=True, eq=False)
class _Calls(Samples):
    """Calls without gradients from one place; wrong are those in which some layer behaved as in training."""

    layers: int = 0  # that behave differently in training


class EvaluationMode(PlaceProbe[_Calls]):
    """DL207: looks at the layers that differ between the modes whenever a model is called without gradients."""

    name = "evaluation_mode"
    samples = _Calls

    def on_model_forward(self, event: ModelForward[Any]) -> None:
        if event.grad == "on":
            return
        seen = self.at(stack_of(event))
        seen.last = self.run.steps
        layers = [part for part in event.model.modules() if _is_modal(part)]
        seen.looks += 1
        seen.layers = max(seen.layers, len(layers))
        seen.wrong += any(layer.training for layer in layers)

    def judge_place(self, place: Stack, seen: _Calls) -> Iterator[Judgement]:
        yield self.judgement(
            "DL207",
            place,
            seen,
            "CONFIRMED" if seen.wrong == seen.looks else "INCONCLUSIVE" if seen.wrong else "REFUTED",
            f"{seen.wrong} of {seen.looks} calls without gradients ran dropout or batch norm as in training "
            f"({seen.layers} such layers)",
            "all calls without gradients from this place; none refutes",
            {"wrong": seen.wrong, "calls": seen.looks, "layers": seen.layers},
            "note" if seen.looks >= ENOUGH else "",
        )


def _is_modal(layer: nn.Module) -> bool:
    if isinstance(layer, _DropoutNd):
        return layer.p > 0
    return isinstance(layer, _BatchNorm) and layer.track_running_stats
