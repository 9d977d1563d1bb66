"""Units that are zero for every sample, or saturated: read from the graph, so that functions count as layers do."""

from __future__ import annotations

from collections import Counter

import torch

from dllint.confirm.evidence import Units, histogram
from dllint.confirm.inside.parts import some
from dllint.confirm.probes.base import ENOUGH, Judgements, Notes, Probe, Stack, Tensor, decided, events, stack_of
from dllint.confirm.probes.graph import weight_behind

_KINDS = {"ReluBackward0": "ReLU", "TanhBackward0": "tanh"}
_BATCHES, _SAMPLES = 16, 1000  # from which it counts that a unit is dead
_FLAT = 0.99  # of tanh
_MANY, _FEW = 0.9, 0.2  # share of the units of a layer that are dead, or of its values that are saturated
_MOST = 200  # layers
_VALUES = 512  # of a layer that the report draws


class _Layer(Notes):
    found: Tensor  # the sum, over the looks, of the units that are alive, or of the shares of saturated values
    samples: int = 0
    looks: int = 0
    values: Tensor = torch.zeros(0)


class Activations(Probe):
    _layers: dict[tuple[Stack, str, str, int, int], _Layer] = {}  # place, kind, name, units, and which of them

    def before_backward(self, call: events.BackwardCall) -> None:
        stack = stack_of(call)
        if not self.is_next_sampled(stack, _BATCHES) or self.run.packs:
            return
        met: Counter[tuple[str, str, int]] = Counter()
        for node in call.nodes:
            kind = _KINDS.get(node.name())
            if kind is None or met.total() >= _MOST:
                continue
            try:
                values = node._saved_result.detach()
            except RuntimeError:  # the script has written over it since
                continue
            if values.dim() > 1 and values.numel() and values.is_floating_point():
                weight = weight_behind(node)
                is_convolved = values.dim() > 3 or (weight is not None and weight.dim() > 2)
                unit = 1 if is_convolved else values.dim() - 1
                name = self.run.names.of(weight) if weight is not None else f"{values.shape[unit]} units"
                alike = kind, name, values.shape[unit]
                met[alike] += 1
                self._look((stack, *alike, met[alike]), values, unit)

    def _look(self, key: tuple[Stack, str, str, int, int], values: Tensor, unit: int) -> None:
        """Take in the outputs of a layer. Reads nothing from the device."""
        if key[1] == "ReLU":
            most = values.amax([dim for dim in range(values.dim()) if dim != unit])
            found = ((most > 0) | ~most.isfinite()).float()
        else:
            found = (values.abs() > _FLAT).float().mean()
        layer = self._layers.get(key)
        if layer is None or layer.found.device != found.device:
            layer = self._layers[key] = _Layer(torch.zeros_like(found))
        layer.found = layer.found + found
        layer.samples += values.numel() // values.shape[unit]
        layer.looks += 1
        layer.values = some(values, _VALUES).clone()

    def judge(self) -> Judgements:
        by_place: dict[tuple[Stack, str], list[Units]] = {}
        looks: Counter[tuple[Stack, str]] = Counter()
        for (stack, kind, name, size, _), layer in self._layers.items():
            units = Units(name, kind, size, layer.samples, values=histogram(layer.values.float().tolist()))
            if kind == "ReLU":
                units.dead = int((layer.found == 0).sum())
            else:
                units.saturated = float(layer.found) / layer.looks
            by_place.setdefault((stack, kind), []).append(units)
            looks[stack, kind] = max(looks[stack, kind], layer.looks)
            self.run.record.pictures.units.append(units)
        for (stack, kind), layers in by_place.items():
            worst, seen = max(layers, key=lambda units: units.share), self.whole(stack, looks=looks[stack, kind])
            found = {"layer": worst.name, "units": worst.units}
            if kind == "ReLU":
                is_enough = seen.looks >= _BATCHES and worst.samples >= _SAMPLES
                verdict = decided(worst.share >= _MANY and is_enough, worst.share <= _FEW)
                yield self.judgement("dead-units", seen, verdict, dead=worst.dead, samples=worst.samples, **found)
            elif seen.looks >= ENOUGH:
                verdict = decided(worst.share >= _MANY, worst.share <= _FEW)
                yield self.judgement("saturated-units", seen, verdict, saturated=worst.saturated, **found)
