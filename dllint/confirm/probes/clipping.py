"""DL212, DL213: what clipping is given, and when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import ENOUGH, Probe, stack_of
from dllint.events import GradientClip

_FIRST = 24  # calls from each place that are looked at


@dataclass(slots=True)
class _Clips:
    """Calls of a clipping function from one place; all but ``made`` count those that were looked at."""

    made: int = 0
    calls: int = 0
    late: int = 0  # after the step that used the gradients
    scaled: int = 0  # while a scaler had the gradients scaled
    with_scaler: int = 0
    first: int = 0
    last: int = 0


class Clipping(Probe):
    """DL212 and DL213: gradients clipped after they were used, or while they were scaled."""

    name = "clipping"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._clips: dict[Stack, _Clips] = {}
        self._scalers = 0

    def on_scale(self, scaler: Any, scaled: Tensor) -> None:
        self._scalers += bool(scaler.is_enabled())

    def on_gradient_clip(self, event: GradientClip[Any]) -> None:
        parameters: Any = event.target
        stack = stack_of(event)
        clips = self._clips.get(stack)
        if clips is None:
            clips = self._clips[stack] = _Clips(first=self.run.steps)
        clips.made += 1
        if clips.made > _FIRST and clips.made % self.run.every:
            return
        clipped = {id(parameter) for parameter in parameters}
        owners = [t for t in self.run.gradients.tracked if not clipped.isdisjoint(map(id, t.parameters()))]
        if not owners:
            return
        clips.calls += 1
        clips.late += all(owner.steps and not owner.is_fresh for owner in owners)
        clips.scaled += any(owner.is_scaled for owner in owners)
        clips.with_scaler += bool(self._scalers)
        clips.last = self.run.steps

    def judge(self) -> Iterator[Judgement]:
        for stack, clips in self._clips.items():
            if clips.calls >= ENOUGH:
                yield _clipped("DL212", stack, clips, clips.late, "after the step that used the gradients")
            if clips.with_scaler >= ENOUGH:
                yield _clipped("DL213", stack, clips, clips.scaled, "while the gradients were scaled")


def _clipped(rule: str, stack: Stack, clips: _Clips, wrong: int, when: str) -> Judgement:
    return Judgement(
        rule,
        "clipping",
        "CONFIRMED" if wrong >= ENOUGH else "INCONCLUSIVE" if wrong else "REFUTED",
        f"{wrong} of {clips.calls} calls clipped {when}",
        "3 or more such calls; none refutes",
        {"wrong": wrong, "calls": clips.calls},
        clips.calls,
        (clips.first, clips.last),
        (stack,),
        "alarm",
    )
