"""DL212 and DL213: gradients clipped after they were used, or while they were scaled."""

from __future__ import annotations

from typing import Any

from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, Tensor, events, repeated, stack_of


class _Clips(Samples):
    late: int = 0  # after the step that used the gradients
    scaled: int = 0  # while a scaler had the gradients scaled
    with_scaler: int = 0


class Clipping(PlaceProbe[_Clips]):
    at_first = 24
    _scalers = 0

    def on_scale(self, scaler: Any, scaled: Tensor) -> None:
        self._scalers += bool(scaler.is_enabled())

    def on_gradient_clip(self, event: events.GradientClip) -> None:
        clips = self.sample(stack_of(event))
        if clips is None:
            return
        clipped = set(map(id, event.target or ()))
        owners = [t for t in self.run.gradients.tracked if not clipped.isdisjoint(map(id, t.parameters()))]
        if owners:
            clips.count()
            clips.late += all(owner.steps and not owner.is_fresh for owner in owners)
            clips.scaled += any(owner.is_scaled for owner in owners)
            clips.with_scaler += bool(self._scalers)

    def judge_each(self, seen: _Clips) -> Judgements:
        for rule, looks, wrong in (("DL212", seen.looks, seen.late), ("DL213", seen.with_scaler, seen.scaled)):
            if looks >= ENOUGH:
                yield self.judgement(rule, seen, repeated(wrong))
