"""DL802: the scale of gradient scalers, and steps that they skip."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import ENOUGH, Probe, stack_of, unanimous
from dllint.events import ModelForward, ScalerUpdate

_SETTLING = 25  # updates in which a scaler finds its scale
_WINDOW = 100
_MANY, _FEW = 0.3, 0.05  # of the updates that skip a step
_COLLAPSED = 64  # times
_HAS_DEVICES = hasattr(torch, "get_autocast_dtype")  # from torch 2.4 on, one function for all devices


@dataclass(slots=True)
class _Scales:
    """The scale before the first update, and after each."""

    first: float
    after: list[float] = field(default_factory=list)

    def skips(self) -> list[bool]:
        """For each update, whether it lowered the scale, which it does when a step was skipped."""
        before = [self.first, *self.after]
        return [now < then for then, now in zip(before, self.after, strict=False)]


class Scaling(Probe):
    """Follows the scale of each gradient scaler."""

    name = "scaling"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._scalers: WeakKeyDictionary[Any, _Scales] = WeakKeyDictionary()
        self._seen: list[_Scales] = []
        self._types: list[torch.dtype] = []  # of autocast, in the latest call of a model
        self._scaled: dict[Stack, list[int]] = {}  # losses of models under autocast, and those of them in bfloat16
        self._place: Stack = ()

    def on_model_forward(self, event: ModelForward[Any]) -> None:
        if event.grad == "on":
            self._types = autocast_types()
            self._place = stack_of(event)

    def on_scale(self, scaler: Any, scaled: Any) -> None:
        if scaler.is_enabled() and self._types:
            losses = self._scaled.setdefault(self._place, [0, 0])
            losses[0] += 1
            losses[1] += all(kind == torch.bfloat16 for kind in self._types)
        if scaler.is_enabled() and scaler not in self._scalers:
            self._scalers[scaler] = _Scales(float(scaler.get_scale()))
            self._seen.append(self._scalers[scaler])

    def on_scaler_update(self, event: ScalerUpdate[Any]) -> None:
        scaler: Any = event.scaler
        if scaler in self._scalers:
            self._scalers[scaler].after.append(float(scaler.get_scale()))

    def judge(self) -> Iterator[Judgement]:
        for stack, (losses, wide) in self._scaled.items():
            yield Judgement(
                "DL802",
                self.name,
                unanimous(wide, losses),
                f"{wide} of {losses} losses that were scaled came from models in bfloat16, whose gradients do not "
                "vanish as those in float16 do",
                "all of 3 or more losses; none refutes",
                {"bfloat16": wide, "losses": losses},
                losses,
                (0, self.run.steps),
                (stack,),
                "note",
            )
        for scales in self._seen:
            if len(scales.after) < ENOUGH:
                continue
            skips = scales.skips()
            recent = skips[_SETTLING:][-_WINDOW:]
            share = sum(recent) / len(recent) if recent else 0.0
            last = scales.after[-1]
            gone = last < 1 or last < scales.first / _COLLAPSED
            yield Judgement(
                "scale-collapse",
                self.name,
                "CONFIRMED" if gone or share > _MANY else "REFUTED" if share <= _FEW else "INCONCLUSIVE",
                f"the scale went from {scales.first:.4g} to {last:.4g}, and {sum(skips)} of {len(skips)} steps were "
                "skipped",
                "a scale below 1 or 64 times lower than at first, or over 0.3 of the steps skipped after the first 25; "
                "0.05 or fewer refutes",
                {"first": scales.first, "last": last, "skipped": sum(skips), "updates": len(skips)},
                len(skips),
                (0, self.run.steps),
                voice="alarm",
            )


def autocast_types() -> list[torch.dtype]:
    """The types that autocast computes in, on each device on which it is enabled."""
    if _HAS_DEVICES:
        return [torch.get_autocast_dtype(kind) for kind in _devices() if torch.is_autocast_enabled(kind)]
    found = [torch.get_autocast_cpu_dtype()] if torch.is_autocast_cpu_enabled() else []
    return [*found, *([torch.get_autocast_gpu_dtype()] if torch.is_autocast_enabled() else [])]


def _devices() -> tuple[str, ...]:
    return ("cuda", "cpu") if torch.cuda.is_available() else ("cpu",)
