"""DL207: looks at the layers that differ between the modes whenever a model is called without gradients."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, decided
from dllint.confirm.probes.events import ModelForward, stack_of


@dataclass(slots=True, eq=False)
class _Calls(Samples):
    """Calls without gradients from one place; wrong are those in which some layer behaved as in training."""

    layers: int = 0  # that behave differently in training


class EvaluationMode(PlaceProbe[_Calls]):
    def on_model_forward(self, event: ModelForward) -> None:
        if event.grad != "on":
            layers = [part for part in event.model.modules() if is_modal(part)]
            seen = self.at(stack_of(event))
            seen.count(any(layer.training for layer in layers))
            seen.layers = max(seen.layers, len(layers))

    def judge_each(self, seen: _Calls) -> Judgements:
        verdict = decided(seen.wrong == seen.looks, not seen.wrong)
        yield self.judgement("DL207", seen, verdict, "", "note" if seen.looks >= ENOUGH else "")


def is_modal(layer: nn.Module) -> bool:
    """Whether a layer does something else in training than in evaluation."""
    if isinstance(layer, _DropoutNd):
        return layer.p > 0
    return isinstance(layer, _BatchNorm) and layer.track_running_stats
