"""DL210: gradients summed over several backward passes, without dividing the loss by their number. Compares what is
sent backward with the last loss that was computed."""

from __future__ import annotations

import math
from statistics import median

from dllint.confirm.probes import events
from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, Tensor, alarm_if, decided, stack_of
from dllint.confirm.probes.graph import nearest

_ADAPTIVE = ("Adam", "RMSprop", "Adagrad", "Adadelta", "Adafactor", "Lion", "Rprop")
_CLOSE = 0.05
_MOST_WINDOWS = 1000  # of each place, after which one in so many is noted
_MOST = 60  # backward passes from each place whose loss is looked at
_NEAR = 40  # operations between what is sent backward and the loss in it


class _Windows(Samples):
    """Backward passes from one place: how many made up the gradients of a step, and how the loss was scaled."""

    sizes: list[int] = []
    factors: list[float] = []
    kind: str = ""  # of the optimizer


class Accumulation(PlaceProbe[_Windows]):
    turn = -2  # it asks for the gradients of a step before they count as used
    _loss: Tensor | None = None

    def on_loss_call(self, call: events.LossCall) -> None:
        self._loss = call.result if call.result.numel() == 1 and call.result.grad_fn is not None else None

    def before_backward(self, call: events.BackwardCall) -> None:
        seen = self.at(stack_of(call))
        last, self._loss = self._loss, None
        if last is None or len(call.roots) != 1 or call.roots[0].numel() != 1 or len(seen.factors) >= _MOST:
            return
        if all(node is not last.grad_fn for node in nearest(call.roots[0].grad_fn, _NEAR)):
            return  # the backward pass of that loss was not told, as there was no time
        loss = float(last.detach()) * (self.run.gradients.scale_of(call.roots) or 1.0)
        factor = float(call.roots[0].detach()) * call.factor / loss if loss else math.nan
        if math.isfinite(factor):
            seen.factors.append(factor)

    def on_gap(self) -> None:
        self._loss = None

    def on_optimizer_step(self, event: events.OptimizerStep) -> None:
        tracked = self.run.gradients.of(event.optimizer)
        if not tracked.is_fresh or tracked.is_polluted or tracked.is_partial:
            return  # gradients that are never cleared are another bug
        for stack, size in tracked.window.items():
            seen = self.at(stack)
            if len(seen.sizes) < _MOST_WINDOWS or self.run.steps % self.run.settings.every == 0:
                seen.count()
                seen.sizes.append(size)
                seen.kind = tracked.kind

    def judge_each(self, seen: _Windows) -> Judgements:
        if seen.sizes:
            size, factor = int(median(seen.sizes)), median(seen.factors) if seen.factors else None
            told = "a loss of unknown scale" if factor is None else f"{factor:.3g} times the loss"
            is_usual = any(name in seen.kind for name in _ADAPTIVE) or len(set(seen.sizes[:-1])) > 1
            is_enough, is_divided = len(seen.sizes) >= ENOUGH, _are_one([factor * size for factor in seen.factors])
            is_wrong, is_good = size > 1 and _are_one(seen.factors), size == 1 or is_divided
            verdict, voice = decided(is_enough and is_wrong, is_enough and is_good), alarm_if(not is_usual)
            yield self.judgement("DL210", seen, verdict, told, voice, per_step=size, factor=factor)


def _are_one(factors: list[float]) -> bool:
    return bool(factors) and all(abs(factor - 1) < _CLOSE for factor in factors)
