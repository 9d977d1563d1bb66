"""Batch norm that learns statistics though its layer is frozen. Follows the statistics of batch norms that are frozen
in every call of their model."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from dllint.confirm.probes import events
from dllint.confirm.probes.base import ENOUGH, Judgements, ObjectProbe, Samples, Tensor, alarm_if, decided, stack_of

_LOOKS = 6  # calls of a model that are all looked at
_MATERIAL = 0.1  # standard deviations


class _Frozen(Samples):
    """A batch norm whose scale and shift are frozen: its statistics at first, and how far they went."""

    mean: Tensor = torch.zeros(())
    deviation: Tensor = torch.ones(())
    moved: bool = False
    shift: float = 0.0

    def look(self, layer: _BatchNorm) -> None:
        """Compare the statistics with those at first."""
        self.looks += 1
        mean = layer.running_mean
        if mean is not None and mean.device == self.mean.device and mean.shape == self.mean.shape:
            self.moved = bool((mean != self.mean).any())
            self.shift = float(((mean - self.mean).abs() / self.deviation).mean())


class Normalization(ObjectProbe[_Frozen]):
    def on_model_forward(self, event: events.ModelForward) -> None:
        if event.grad == "on" and self.is_next_sampled(stack_of(event), _LOOKS):
            for layer in event.model.modules():
                if not isinstance(layer, _BatchNorm) or not layer.affine or layer.running_mean is None:
                    continue
                is_known, seen = layer in self.known, self.of(layer, stack_of(event))
                if seen is not None and (layer.weight.requires_grad or layer.bias.requires_grad):
                    self.known[layer] = None  # it is trained at times
                    self.seen.remove(seen)
                elif seen is not None and is_known:
                    seen.look(layer)

    def describe(self, thing: Any, *place: Any) -> _Frozen:
        return _Frozen(stacks=place, mean=thing.running_mean.clone(), deviation=(thing.running_var + thing.eps).sqrt())

    def judge(self) -> Judgements:
        for layer, known in self.known.items():
            if known is not None:
                known.look(layer)
        for stack in dict.fromkeys(seen.stacks[0] for seen in self.seen):
            looked = [seen for seen in self.seen if seen.stacks[0] == stack and seen.looks >= ENOUGH]
            moved = [item for item in looked if item.moved]
            if looked and self.run.steps >= ENOUGH:
                shift, seen = max((item.shift for item in moved), default=0.0), self.whole(stack, looks=len(looked))
                found = {"moved": len(moved), "shift": shift}
                yield self.judgement("DL602", seen, decided(moved, True), "", alarm_if(shift > _MATERIAL), **found)
