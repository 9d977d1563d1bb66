"""DL212, DL213: what clipping is given, and when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import ENOUGH, PlaceProbe, Samples, stack_of
from dllint.events import GradientClip


@dataclass(slots=True, eq=False)
class _Clips(Samples):
    """Calls of a clipping function from one place."""

    late: int = 0  # after the step that used the gradients
    scaled: int = 0  # while a scaler had the gradients scaled
    with_scaler: int = 0


class Clipping(PlaceProbe[_Clips]):
    """DL212 and DL213: gradients clipped after they were used, or while they were scaled."""

    name = "clipping"
    samples = _Clips
    at_first = 24

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._scalers = 0

    def on_scale(self, scaler: Any, scaled: Tensor) -> None:
        self._scalers += bool(scaler.is_enabled())

    def on_gradient_clip(self, event: GradientClip[Any]) -> None:
        parameters: Any = event.target
        clips = self.sample(stack_of(event))
        if clips is None:
            return
        clipped = {id(parameter) for parameter in parameters}
        owners = [t for t in self.run.gradients.tracked if not clipped.isdisjoint(map(id, t.parameters()))]
        if not owners:
            return
        clips.looks += 1
        clips.late += all(owner.steps and not owner.is_fresh for owner in owners)
        clips.scaled += any(owner.is_scaled for owner in owners)
        clips.with_scaler += bool(self._scalers)

    def judge_place(self, place: Stack, seen: _Clips) -> Iterator[Judgement]:
        facts = (
            ("DL212", seen.looks, seen.late, "after the step that used the gradients"),
            ("DL213", seen.with_scaler, seen.scaled, "while the gradients were scaled"),
        )
        for rule, looks, wrong, when in facts:
            if looks >= ENOUGH:
                yield self.judgement(
                    rule,
                    place,
                    seen,
                    "CONFIRMED" if wrong >= ENOUGH else "INCONCLUSIVE" if wrong else "REFUTED",
                    f"{wrong} of {seen.looks} calls clipped {when}",
                    "3 or more such calls; none refutes",
                    {"wrong": wrong, "calls": seen.looks},
                )
