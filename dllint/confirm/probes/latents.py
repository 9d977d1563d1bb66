"""DL943: the factor that latents are scaled by, compared with what the configuration of their autoencoder says.

What a model that removes noise is given is made of latents and noise alone, and so is what its output is compared with,
whichever of the usual targets that is. So the input of each sample is solved for as a sum of its latents, as they were
drawn, and of its target; and the factor follows by the one kind of target for which it is the same in all samples.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from functools import partial
from statistics import fmean, median, pstdev
from weakref import ref

import torch

from dllint.confirm.evidence import Verdict
from dllint.confirm.probes.base import ENOUGH, Judgements, Notes, PlaceProbe, Samples, Tensor, decided, events, nn
from dllint.confirm.probes.events import Stack, stack_of

_LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
_SAMPLES, _ELEMENTS = 8, 512  # of a batch that are kept, and of each sample
_RECENT = 3  # batches of latents
_LEFT = 0.02  # of the deviation of the input, where it is made of latents and target
_SAME = 0.02  # by which factors may differ, as a share; by which shifts may
_VARIED = 0.05  # deviation of the share of the target: else all kinds of target look alike

_KINDS: dict[str, Callable[[float, float], float]] = {
    "noise": lambda latents, target: latents / math.sqrt(max(1e-9, 1 - target**2)),
    "velocity": lambda latents, target: latents / math.sqrt(1 + target**2),
    "flow": lambda latents, target: latents,
}
"""The factor of the latents by the kind of target, from how much of the latents and of the target is in the input."""


class _Seen(Samples):
    """Latents that were drawn at one place, what the configuration of their autoencoder says, and how much of them and
    of the target was in the inputs of a model."""

    factor: float | None = None
    shift: float = 0.0
    shares: list[tuple[float, float]] = []
    shifts: list[float] = []


class _Drawn(Notes):
    """Some of the latents of a batch, and where they were drawn."""

    shape: torch.Size
    values: Tensor
    seen: _Seen


class Latents(PlaceProbe[_Seen]):
    _drawn: deque[_Drawn] = deque(maxlen=_RECENT)
    _given: list[ref[Tensor]] = []
    _is_trained = False

    def on_latents(self, latents: Tensor, vae: nn.Module | None, stack: Stack) -> None:
        seen = self.at(stack)
        if seen.calls == 1:
            config = getattr(vae, "config", None)
            get = config.get if isinstance(config, dict) else partial(getattr, config)
            factor, shift = get("scaling_factor", None), get("shift_factor", None)
            seen.factor = float(factor) if isinstance(factor, (int, float)) else None
            seen.shift = float(shift) if isinstance(shift, (int, float)) else 0.0
        self._drawn.append(_Drawn(latents.shape, _some(latents), seen))

    def on_model_forward(self, event: events.ModelForward) -> None:
        if self._drawn and event.grad == "on":
            shapes = {drawn.shape for drawn in self._drawn}
            given = (value for value in event.arguments.all() if isinstance(value, Tensor))
            self._given = [ref(value) for value in given if value.shape in shapes]

    def on_loss_call(self, call: events.LossCall) -> None:
        given, self._given = self._given, []
        if not given or call.function not in _LOSSES or call.target.requires_grad:
            return
        noisy, self._is_trained = given[0](), True
        if not self.is_next_sampled(stack_of(call), self.at_first) or noisy is None:
            return
        fitting = [drawn for drawn in self._drawn if drawn.shape == noisy.shape == call.target.shape]
        for seen in dict.fromkeys(drawn.seen for drawn in fitting):
            seen.count()
        for drawn in reversed(fitting):  # the latest are most likely those that it is about
            if self._finds(drawn, _some(noisy), _some(call.target)):
                break

    def _finds(self, drawn: _Drawn, noisy: Tensor, target: Tensor) -> bool:
        found = [_solved(*rows) for rows in zip(drawn.values.cpu(), target.cpu(), noisy.cpu(), strict=True)]
        solved = [parts for parts in found if parts is not None]
        if len(solved) < len(found):
            return False
        drawn.seen.shares += [(latents, share) for latents, share, _ in solved]
        drawn.seen.shifts += [-start / latents for latents, _, start in solved]
        return True

    def judge_each(self, seen: _Seen) -> Judgements:
        if self._is_trained:
            factor = _factor(seen.shares)
            shift = median(seen.shifts) if factor is not None else 0.0
            yield self.judgement("DL943", seen, *_told(seen, factor, shift), measured=factor, measured_shift=shift)


def _told(seen: _Seen, factor: float | None, shift: float) -> tuple[Verdict, str]:
    if factor is None or seen.looks < ENOUGH:
        return "INCONCLUSIVE", "the inputs of the model are not these latents times a constant, and noise"
    if seen.factor is None:
        return "INCONCLUSIVE", f"the latents are multiplied by {factor:.5g}, and their autoencoder says no factor"
    scaled = f"the latents are multiplied by {factor:.5g}, and their autoencoder says {seen.factor:.5g}"
    if abs(factor - 1) < _SAME and abs(shift) < _SAME and abs(seen.factor - 1) >= _SAME:
        return "INCONCLUSIVE", f"{scaled}: they are not scaled at all, which is DL942"
    if abs(shift - seen.shift) >= _SAME:
        return "CONFIRMED", f"{scaled}; {round(shift, 4):g} is subtracted before, where it says {seen.shift:g}"
    return decided(abs(factor / seen.factor - 1) >= _SAME, True), scaled


def _factor(shares: list[tuple[float, float]]) -> float | None:
    """The factor of the latents; None where none is the same in all samples, or several kinds of target would fit."""
    if len(shares) < ENOUGH or pstdev(target for _, target in shares) < _VARIED:
        return None
    clear = [(latents, target) for latents, target in shares if abs(target) < 1 - _VARIED]
    found = []
    for solve in _KINDS.values():
        factors = [solve(*each) for each in clear]
        if len(factors) >= ENOUGH and pstdev(factors) < _SAME * abs(fmean(factors)):
            found.append(fmean(factors))
    return found[0] if len(found) == 1 else None


def _solved(latents: Tensor, target: Tensor, noisy: Tensor) -> tuple[float, float, float] | None:
    """How much of the latents and of the target, and what constant, the input is made of; None where of more."""
    parts = torch.stack([latents, target, torch.ones_like(latents)], 1).double()
    goal = noisy.double()
    if not bool(parts.isfinite().all()) or float(latents.std()) == 0:
        return None
    solution = torch.linalg.lstsq(parts, goal[:, None]).solution[:, 0]
    left = (goal - parts @ solution).norm() / (goal - goal.mean()).norm().clamp_min(1e-12)
    if not bool(left < _LEFT) or float(solution[0].abs()) < 1e-6:
        return None
    of_latents, of_target, start = solution.tolist()
    return of_latents, of_target, start


def _some(values: Tensor) -> Tensor:
    """Some numbers of the first samples, the same ones for each tensor of a shape."""
    rows = values.detach()[:_SAMPLES].flatten(1)
    return rows[:, :: max(1, rows.shape[1] // _ELEMENTS)][:, :_ELEMENTS].float().clone()
