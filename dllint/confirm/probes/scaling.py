"""DL802: the scale of gradient scalers, and steps that they skip."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from dllint.confirm.probes.base import ENOUGH, Judgements, ObjectProbe, Samples, decided
from dllint.confirm.probes.events import ModelForward, ScalerUpdate, Stack, stack_of

_SETTLING = 25  # updates in which a scaler finds its scale
_WINDOW = 100
_MANY, _FEW = 0.3, 0.05  # of the updates that skip a step
_COLLAPSED = 64  # times
_HAS_DEVICES = hasattr(torch, "get_autocast_dtype")  # from torch 2.4 on, one function for all devices


@dataclass(slots=True, eq=False)
class _Scales(Samples):
    """The scale before the first update, and after each."""

    begin: float = 0.0
    after: list[float] = field(default_factory=list)

    def skips(self) -> list[bool]:
        """For each update, whether it lowered the scale, which it does when a step was skipped."""
        before = [self.begin, *self.after]
        return [now < then for then, now in zip(before, self.after, strict=False)]


class Scaling(ObjectProbe[_Scales]):
    def begin(self) -> None:
        self._types: list[torch.dtype] = []  # of autocast, in the latest call of a model
        self._scaled: dict[Stack, Samples] = {}  # losses of models under autocast; wrong are those in bfloat16
        self._place: Stack = ()

    def on_model_forward(self, event: ModelForward) -> None:
        if event.grad == "on":
            self._types = autocast_types()
            self._place = stack_of(event)

    def on_scale(self, scaler: Any, scaled: Any) -> None:
        if scaler.is_enabled():
            self.of(scaler)
            if self._types:
                losses = self._scaled.setdefault(self._place, self.whole(self._place, looks=0))
                losses.count(all(kind == torch.bfloat16 for kind in self._types))

    def describe(self, thing: Any, *place: Stack) -> _Scales:
        return _Scales(begin=float(thing.get_scale()))

    def on_scaler_update(self, event: ScalerUpdate) -> None:
        scales = self.known.get(event.scaler)
        if scales is not None:
            scales.after.append(float(event.scaler.get_scale()))

    def judge(self) -> Judgements:
        for losses in self._scaled.values():
            losses.first, losses.last = 0, self.run.steps
            yield self.judgement("DL802", losses, losses.unanimous)
        yield from super().judge()

    def judge_each(self, seen: _Scales) -> Judgements:
        if len(seen.after) < ENOUGH:
            return
        skips = seen.skips()
        recent = skips[_SETTLING:][-_WINDOW:]
        share = sum(recent) / len(recent) if recent else 0.0
        last = seen.after[-1]
        is_gone = last < 1 or last < seen.begin / _COLLAPSED
        verdict = decided(is_gone or share > _MANY, share <= _FEW)
        found = {"first": seen.begin, "last": last, "skipped": sum(skips)}
        yield self.judgement("scale-collapse", self.whole(looks=len(skips)), verdict, **found)


def autocast_types() -> list[torch.dtype]:
    """The types that autocast computes in, on each device on which it is enabled."""
    if _HAS_DEVICES:
        devices = ("cuda", "cpu") if torch.cuda.is_available() else ("cpu",)
        return [torch.get_autocast_dtype(kind) for kind in devices if torch.is_autocast_enabled(kind)]
    found = [torch.get_autocast_cpu_dtype()] if torch.is_autocast_cpu_enabled() else []
    return [*found, *([torch.get_autocast_gpu_dtype()] if torch.is_autocast_enabled() else [])]
