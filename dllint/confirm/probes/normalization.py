"""Batch norm that learns statistics though its layer is frozen. Follows the statistics of batch norms that are frozen
in every call of their model."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from torch.nn.modules.batchnorm import _BatchNorm

from dllint.confirm.probes.base import ENOUGH, Judgements, Probe, Stack, Tensor, alarm_if, decided, events, stack_of

_LOOKS = 6  # calls of a model that are all looked at
_MATERIAL = 0.1  # standard deviations


@dataclass(slots=True)
class _Frozen:
    """A batch norm whose scale and shift are frozen: its statistics at first, and how far they went."""

    mean: Tensor
    deviation: Tensor
    moved: bool = False
    shift: float = 0.0
    looks: int = 0

    def look(self, layer: _BatchNorm) -> None:
        """Compare the statistics with those at first."""
        self.looks += 1
        mean = layer.running_mean
        if mean is not None and mean.device == self.mean.device and mean.shape == self.mean.shape:
            self.moved = bool((mean != self.mean).any())
            self.shift = float(((mean - self.mean).abs() / self.deviation).mean())


class Normalization(Probe):
    def begin(self) -> None:
        self._layers: WeakKeyDictionary[_BatchNorm, _Frozen | None] = WeakKeyDictionary()  # None: trained at times
        self._frozen: dict[Stack, list[_Frozen]] = {}

    def on_model_forward(self, event: events.ModelForward) -> None:
        if event.grad != "on":
            return
        for layer in event.model.modules() if self.is_next_sampled(stack_of(event), _LOOKS) else ():
            if isinstance(layer, _BatchNorm) and layer.affine and layer.running_mean is not None:
                self._look(layer, stack_of(event))

    def _look(self, layer: _BatchNorm, stack: Stack) -> None:
        known = self._layers.get(layer)
        if layer.weight.requires_grad or layer.bias.requires_grad:
            self._forget(layer, known)
        elif layer not in self._layers and layer.running_mean is not None and layer.running_var is not None:
            deviation = (layer.running_var + layer.eps).sqrt()
            known = self._layers[layer] = _Frozen(layer.running_mean.clone(), deviation)
            self._frozen.setdefault(stack, []).append(known)
        elif known is not None:
            known.look(layer)

    def _forget(self, layer: _BatchNorm, known: _Frozen | None) -> None:
        self._layers[layer] = None
        for frozen in self._frozen.values():
            if known in frozen:
                frozen.remove(known)

    def judge(self) -> Judgements:
        for layer, known in self._layers.items():
            if known is not None:
                known.look(layer)
        for stack, frozen in self._frozen.items():
            looked = [item for item in frozen if item.looks >= ENOUGH]
            moved = [item for item in looked if item.moved]
            if looked and self.run.steps >= ENOUGH:
                shift, seen = max((item.shift for item in moved), default=0.0), self.whole(stack, looks=len(looked))
                found = {"moved": len(moved), "shift": shift}
                yield self.judgement("DL602", seen, decided(moved, True), "", alarm_if(shift > _MATERIAL), **found)
