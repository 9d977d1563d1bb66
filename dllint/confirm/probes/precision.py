"""What is computed in lower precision: the scale of gradient scalers and steps that they skip, losses that are scaled
for nothing (DL802), and the types that products are computed in under autocast."""

from __future__ import annotations

from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import torch

from dllint.confirm.probes.base import ENOUGH, Judgements, Notes, PlaceProbe, Samples, Tensor, decided, events, stack_of
from dllint.confirm.probes.events import Stack

_SETTLING = 25  # updates in which a scaler finds its scale
_WINDOW = 100
_MANY, _FEW = 0.3, 0.05  # of the updates that skip a step
_AT_ONCE = 64  # scales that are read
_COLLAPSED = 64  # times
_HAS_DEVICES = hasattr(torch, "get_autocast_dtype")  # from torch 2.4 on, one function for all devices
_OPERANDS = {
    "AddmmBackward0": "_saved_mat1",
    "MmBackward0": "_saved_self",
    "BmmBackward0": "_saved_self",
    "ConvolutionBackward0": "_saved_input",
}
_LOW = (torch.float16, torch.bfloat16)


class _Seen(Samples):
    """The matrix products behind the backward passes from one place; or losses that were scaled after a model had been
    called there under autocast, of which those in bfloat16 are wrong."""

    low: int = 0
    full: int = 0  # in full precision


class _Scales(Notes):
    """The scales of a scaler before its first update, and after each. They are read many at once, since to wait for a
    GPU in each step would keep the script from being ahead of it."""

    _known: list[float] = []
    _waiting: list[Tensor] = []

    def add(self, scaler: Any) -> None:
        """Note the scale of now."""
        kept = getattr(scaler, "_scale", None)  # what `get_scale` reads
        self._waiting.append(kept.detach().clone() if isinstance(kept, Tensor) else torch.tensor(scaler.get_scale()))
        if len(self._waiting) >= _AT_ONCE:
            self.read()

    def read(self) -> list[float]:
        """All of them."""
        waiting, self._waiting = self._waiting, []
        scales = [each.float().reshape(()).to(waiting[-1].device) for each in waiting]
        self._known += torch.stack(scales).tolist() if scales else []
        return self._known


class Precision(PlaceProbe[_Seen]):
    _types: list[torch.dtype] = []  # of autocast, in the latest call of a model with gradients
    _place: Stack = ()  # of that call
    _waits = False  # for a backward pass
    _scales: WeakKeyDictionary[Any, _Scales] = WeakKeyDictionary()
    _courses: list[_Scales] = []  # of the same scalers, which may be gone

    def on_model_forward(self, event: events.ModelForward) -> None:
        if event.grad == "on":
            self._types, self._place = _autocast_types(), stack_of(event)
        self._waits = event.grad == "on" and bool(self._types)

    def on_scale(self, scaler: Any, scaled: Any) -> None:
        if scaler.is_enabled() and scaler not in self._scales:
            self._scales[scaler] = _Scales()
            self._scales[scaler].add(scaler)
            self._courses.append(self._scales[scaler])
        if scaler.is_enabled() and self._types:
            self.at("DL802", self._place).count(all(kind == torch.bfloat16 for kind in self._types))

    def on_scaler_update(self, event: events.ScalerUpdate) -> None:
        if event.scaler in self._scales:
            self._scales[event.scaler].add(event.scaler)

    def before_backward(self, call: events.BackwardCall) -> None:
        seen = self.at("autocast-without-effect", stack_of(call))
        if not self._waits or self.run.packs or seen.calls > ENOUGH:
            return
        self._waits = False
        for node in call.nodes:
            operand = getattr(node, _OPERANDS.get(node.name(), ""), None)
            if operand is not None and operand.is_floating_point():
                seen.low += operand.dtype in _LOW
                seen.full += operand.dtype not in _LOW

    def judge(self) -> Judgements:
        yield from super().judge()
        for scales in [course.read() for course in self._courses]:
            for scale in scales[1:]:
                self.run.trace("scale", scale)
            skips = [now < then for then, now in pairwise(scales)]  # a step was skipped where the scale is lowered
            if len(skips) >= ENOUGH:
                recent = skips[_SETTLING:][-_WINDOW:]
                share = sum(recent) / len(recent) if recent else 0.0
                verdict = decided(scales[-1] < max(1, scales[0] / _COLLAPSED) or share > _MANY, share <= _FEW)
                found = {"first": scales[0], "last": scales[-1], "skipped": sum(skips)}
                yield self.judgement("scale-collapse", self.whole(looks=len(skips)), verdict, **found)

    def judge_each(self, seen: _Seen) -> Judgements:
        if seen.rule == "DL802":
            yield self.judgement("DL802", seen, seen.unanimous)
        elif products := seen.low + seen.full:
            seen.looks = min(seen.calls, ENOUGH)
            yield self.judgement("autocast-without-effect", seen, seen.verdict(seen.full > seen.low), products=products)


def _autocast_types() -> list[torch.dtype]:
    """The types that autocast computes in, on each device on which it is enabled."""
    if _HAS_DEVICES:
        return [torch.get_autocast_dtype(kind) for kind in ("cuda", "cpu") if torch.is_autocast_enabled(kind)]
    found = [torch.get_autocast_cpu_dtype()] if torch.is_autocast_cpu_enabled() else []
    return [*found, *([torch.get_autocast_gpu_dtype()] if torch.is_autocast_enabled() else [])]
