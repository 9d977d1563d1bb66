"""Spectral norms that are used before the first call in training has estimated them. Looks at the first call of each
model that has ``torch.nn.utils.spectral_norm`` in it."""

from __future__ import annotations

import torch
from torch.nn.utils.spectral_norm import SpectralNorm

from dllint.confirm.probes.base import Judgements, Probe, Stack, Tensor, decided, events, nn, stack_of

_OFF = 0.5  # of the norm: what a single step of the power iteration exceeds
_ITERATIONS = 20
_LARGEST = 4_000_000  # elements


class Spectral(Probe):
    _ratios: dict[Stack, list[float]] = {}  # of the norm as it is used and as it is

    def on_model_forward(self, event: events.ModelForward) -> None:
        for layer in event.model.modules() if self.is_new(event.model) else ():
            for hook in layer._forward_pre_hooks.values():
                if isinstance(hook, SpectralNorm):
                    self._ratios.setdefault(stack_of(event), []).append(1.0 if layer.training else _ratio(layer, hook))

    def judge(self) -> Judgements:
        for stack, ratios in self._ratios.items():
            seen, wrong = self.whole(stack, looks=len(ratios)), sum(ratio < _OFF for ratio in ratios)
            yield self.judgement("DL220", seen, decided(wrong, True), wrong=wrong, least=min(ratios))


def _ratio(layer: nn.Module, hook: SpectralNorm) -> float:
    """The norm that a weight is divided by, compared with its largest singular value."""
    weight: Tensor = getattr(layer, hook.name + "_orig").detach()
    if weight.numel() > _LARGEST:
        return 1.0
    matrix = hook.reshape_weight_to_matrix(weight).float()
    left, right = getattr(layer, hook.name + "_u").float(), getattr(layer, hook.name + "_v").float()
    used = float(torch.dot(left, torch.mv(matrix, right)).abs())
    vector = matrix[matrix.norm(dim=1).argmax()]
    for _ in range(_ITERATIONS):
        vector = nn.functional.normalize(torch.mv(matrix.t(), torch.mv(matrix, vector)), dim=0)
    norm = float(torch.mv(matrix, vector).norm())
    return used / norm if norm else 1.0
