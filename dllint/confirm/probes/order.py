"""The order of clipping, unscaling, stepping and scheduling."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import ReduceLROnPlateau

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import ENOUGH, Probe, stack_of
from dllint.confirm.probes.gradients import Tracked
from dllint.events import GradientClip, OptimizerStep, ScalerUpdate, SchedulerStep

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


class ScaledSteps(Probe):
    """DL214: steps with gradients that a scaler has scaled, past the scaler."""

    name = "scaled_steps"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._steps: dict[Tracked, list[int]] = {}  # with a scaler, and with gradients that are still scaled

    def before_optimizer_step(self, event: OptimizerStep[Any]) -> None:
        optimizer: Optimizer = event.optimizer
        tracked = self.run.gradients.of(optimizer)
        if tracked.was_scaled:
            steps = self._steps.setdefault(tracked, [0, 0])
            steps[0] += 1
            steps[1] += (
                tracked.is_scaled and getattr(optimizer, "grad_scale", None) is None
            )  # which fused ones are given

    def judge(self) -> Iterator[Judgement]:
        for tracked, (steps, wrong) in self._steps.items():
            if steps >= ENOUGH:
                yield Judgement(
                    "DL214",
                    self.name,
                    "CONFIRMED" if wrong >= ENOUGH else "INCONCLUSIVE" if wrong else "REFUTED",
                    f"{wrong} of {steps} steps of {tracked.kind} used gradients that were still scaled",
                    "3 or more such steps; none refutes",
                    {"wrong": wrong, "steps": steps},
                    steps,
                    (0, tracked.steps),
                    tuple(tracked.step_stacks),
                    "alarm",
                )


class SchedulerOrder(Probe):
    """DL303: a scheduler that steps before its optimizer has."""

    name = "scheduler_order"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._first: list[tuple[str, Stack, int, Tracked]] = []  # the first step of each scheduler
        self._known: WeakSet[Any] = WeakSet()
        self._skipping = False

    def on_scaler_update(self, event: ScalerUpdate[Any]) -> None:
        self._skipping = self._skipping or self.run.steps == 0

    def on_scheduler_step(self, event: SchedulerStep[Any]) -> None:
        scheduler: Any = event.scheduler
        optimizer = getattr(scheduler, "optimizer", None)
        if (
            bool(event.arguments.all())
            or isinstance(scheduler, ReduceLROnPlateau)
            or self._skipping
            or scheduler in self._known
        ):
            return
        if isinstance(optimizer, Optimizer):
            tracked = self.run.gradients.of(optimizer)
            self._known.add(scheduler)
            self._first.append((type(scheduler).__name__, stack_of(event), tracked.steps, tracked))

    def judge(self) -> Iterator[Judgement]:
        for kind, stack, steps, tracked in self._first:
            if not tracked.steps:
                continue  # it never stepped, or something else steps in its place
            yield Judgement(
                "DL303",
                self.name,
                "REFUTED" if steps else "CONFIRMED",
                f"the optimizer had made {steps} steps when {kind} stepped first",
                "0 steps of the optimizer before the first of the scheduler",
                {"scheduler": kind, "optimizer_steps": steps},
                1,
                (steps, steps),
                (stack,),
                "alarm",
            )
