"""Layers (DL207) and functions (DL216) that do in evaluation what they do in training. They are looked at whenever a
model is called without gradients, or is in evaluation mode."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, decided
from dllint.confirm.probes.events import ModelForward, Stack, stack_of


@dataclass(slots=True, eq=False)
class _Calls(Samples):
    """Calls from one place; wrong are those in which something behaved as in training."""

    layers: int = 0  # that behave differently in training


class EvaluationMode(PlaceProbe[_Calls]):
    def on_model_forward(self, event: ModelForward) -> None:
        if event.grad != "on":
            layers = [part for part in event.model.modules() if is_modal(part)]
            seen = self.at("DL207", stack_of(event))
            seen.count(any(layer.training for layer in layers))
            seen.layers = max(seen.layers, len(layers))

    def on_dropout(self, training: bool, probability: float, outermost: nn.Module | None, stack: Stack) -> None:
        self.at("DL216", stack).count(training and probability > 0)

    def judge_each(self, seen: _Calls) -> Judgements:
        rule, verdict = seen.place[0], decided(seen.wrong == seen.looks, not seen.wrong)
        is_told = rule == "DL216" or seen.looks >= ENOUGH
        yield self.judgement(rule, seen, verdict, "", "note" if is_told else "")


def is_modal(layer: nn.Module) -> bool:
    """Whether a layer does something else in training than in evaluation."""
    if isinstance(layer, _DropoutNd):
        return layer.p > 0
    return isinstance(layer, _BatchNorm) and layer.track_running_stats
