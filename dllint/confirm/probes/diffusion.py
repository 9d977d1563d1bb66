"""DL942, DL944, DL945 and DL946: what a model that removes noise is trained with.

Such a training is known by its numbers: a model is given `x` and a time for each sample, and its output is compared
with noise of the same shape, white and of deviation one, of which `x` is made. Then `x = a * data + b * noise` with
`a² + b² = 1`, and all of it follows: `b` is the covariance of `x` and the noise, and what remains of `x` is the data.
So the deviation of latents shows without knowing which library encoded them.
"""

from __future__ import annotations

import re
from collections import Counter
from statistics import fmean, geometric_mean
from typing import cast
from weakref import ref

import torch

from dllint.confirm.inside.parts import objects, vars_of
from dllint.confirm.probes.base import ENOUGH, Judgements, Notes, PlaceProbe, Samples, Tensor, decided, events, stack_of

_LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
_ELEMENTS = 32  # of a sample, from which its numbers say something
_WHITE = 0.1  # by which mean, deviation and correlation of neighbors may miss those of noise
_MOSTLY_NOISE = 0.9  # of the variance, above which the data cannot be told
_LOWEST, _HIGHEST, _OFF = 0.5, 2.0, 0.5  # deviations of latents that models are made for, and their mean
_CHANNELS, _BOUND = 4, 1.05  # of latents: at least so many; pixels never exceed this
_ROWS, _DROPPED = 200, 0.02  # conditions that are compared, and the share that is equal where some are dropped
_CONDITION = re.compile(r"cond|context|encoder_hidden|text|prompt|caption")
_SCHEDULER = re.compile(r"Scheduler$")
_SEARCHES = 12  # for noise schedulers, a tenth of a second each
_ALIKE = 1e-3  # by which the noise of two schedules may differ


class _Given(Notes):
    """What a model was given in its last call: tensors that may be noisy, and conditions by name."""

    tensors: list[ref[Tensor]]
    conditions: list[list[float]]  # the first numbers of each row
    times: list[ref[Tensor]]


class _Losses(Samples):
    """The losses from one place, of which those that are looked at compare with noise; or the calls that sample."""

    deviations: list[float] = []
    means: list[float] = []
    highest: float = 0.0
    shape: list[int] = []
    predicts: set[str] = set()  # what schedulers say that exist, one of which fits
    conditions: Counter[tuple[float, ...]] = Counter()
    halves: list[str] = []  # half of the way, of the noise schedules that exist at a call


class Diffusion(PlaceProbe[_Losses]):
    _given: _Given | None = None
    _searches = 0

    def on_model_forward(self, event: events.ModelForward) -> None:
        if event.grad != "on":
            if any(seen.looks for seen in self.noted()) and not event.model.training:
                halves = [f"{float(schedule[len(schedule) // 2]):.3g}" for schedule in self._search()[0]]
                sampled = self.at("DL944", stack_of(event))
                sampled.halves, sampled.looks = halves or sampled.halves, 1
            return
        given = {**{str(at): value for at, value in enumerate(event.arguments.positional)}, **event.arguments.keywords}
        tensors = {name: value for name, value in given.items() if isinstance(value, Tensor)}
        noisy = [value for value in tensors.values() if value.is_floating_point() and value.dim() > 1]
        if not noisy:
            return
        samples = len(noisy[0])
        times = [ref(value) for value in tensors.values() if value.numel() in (1, samples) and value is not noisy[0]]
        rows = [value for name, value in tensors.items() if _CONDITION.search(name) and value.is_floating_point()]
        conditions = [row for value in rows if len(value) == samples for row in _heads(value)]
        self._given = _Given([ref(value) for value in noisy], conditions, times) if len(tensors) > 1 else None

    def on_loss_call(self, call: events.LossCall) -> None:
        given, self._given = self._given, None
        if given is None or not given.times or call.function not in _LOSSES or not call.result.requires_grad:
            return
        alive = [tensor for known in given.tensors if (tensor := known()) is not None]
        noisy = next((tensor for tensor in alive if tensor.shape == call.target.shape), None)
        if noisy is None or call.target.requires_grad or noisy.numel() < _ELEMENTS * len(noisy):
            return
        seen = self.at("losses", stack_of(call))
        seen.conditions.update(tuple(row) for row in given.conditions)
        if self.is_sampled(seen.calls, self.at_first):
            steps = [time for known in given.times if (time := known()) is not None and not time.is_floating_point()]
            self._look(seen, noisy.detach().float(), call.target.detach().float(), steps)

    def _look(self, seen: _Losses, noisy: Tensor, target: Tensor, steps: list[Tensor]) -> None:
        x, noise = noisy.reshape(len(noisy), -1), target.reshape(len(target), -1)
        centered = noise - noise.mean(1, keepdim=True)
        shares = (x * centered).mean(1) / centered.square().mean(1)  # how much of the noise is in each sample
        if not _is_white(noise) or float(shares.median()) < _WHITE:
            return
        if not seen.looks:
            schedules, predictions = self._search()
            if any(_are_shares(shares, schedule, step) for schedule in schedules for step in steps):
                seen.predicts = predictions
        seen.count()
        seen.shape = list(noisy.shape)
        clear = shares.square() < _MOSTLY_NOISE
        if bool(clear.any()):
            share = shares[clear][:, None]
            data = (x[clear] - share * noise[clear]) / (1 - share.square()).sqrt()
            numbers = torch.stack([data.std(), data.mean(), data.abs().max()]).tolist()
            seen.deviations.append(numbers[0])
            seen.means.append(numbers[1])
            seen.highest = max(seen.highest, numbers[2])
            self.run.trace("deviation of what noise is added to", numbers[0])

    def _search(self) -> tuple[list[Tensor], set[str]]:
        """The schedules of the noise schedulers that exist, one of each kind, and what they say that is predicted."""
        schedules: list[Tensor] = []
        predictions: set[str] = set()
        self._searches += 1
        for item in objects(_SCHEDULER, ("alphas_cumprod",)) if self._searches <= _SEARCHES else ():
            schedule = vars_of(item)["alphas_cumprod"]
            config = getattr(item, "config", vars_of(item))
            predicts = config.get("prediction_type") if isinstance(config, dict) else None
            predictions |= {predicts} if isinstance(predicts, str) else set()
            if isinstance(schedule, Tensor):
                schedule = schedule.detach().float().cpu()
                alike = (known for known in schedules if known.shape == schedule.shape)
                schedules += [] if any((schedule - known).abs().max() <= _ALIKE for known in alike) else [schedule]
        return schedules, predictions

    def judge_each(self, seen: _Losses) -> Judgements:
        if seen.halves:
            yield self.judgement("DL944", seen, decided(len(seen.halves) > 1, True))
        are_latents = len(seen.shape) >= 4 and seen.shape[1] >= _CHANNELS and seen.highest > _BOUND
        if len(seen.deviations) >= ENOUGH and are_latents:
            size, mean = geometric_mean(seen.deviations), fmean(seen.means)
            yield self.judgement("DL942", seen, decided(not _LOWEST <= size <= _HIGHEST, True), mean=mean)
        if seen.looks >= ENOUGH and seen.predicts:
            yield self.judgement("DL945", seen, decided("epsilon" not in seen.predicts, True))
        samples = seen.conditions.total()
        if seen.looks >= ENOUGH and samples >= _ROWS:
            ((_, most),) = seen.conditions.most_common(1)
            share = most / samples if most > 1 else 0.0
            yield self.judgement("DL946", seen, decided(share < _DROPPED, True), "", "", share=share, samples=samples)


def _are_shares(shares: Tensor, schedule: Tensor, steps: Tensor) -> bool:
    """Whether a schedule adds just as much noise at these steps: so the target is the noise, and nothing like it."""
    steps = steps.detach().reshape(-1).cpu()
    if not 0 <= int(steps.min()) <= int(steps.max()) < len(schedule):
        return False
    return bool(((1 - schedule[steps]).sqrt() - shares.cpu()).abs().mean() < _WHITE)


def _is_white(values: Tensor) -> bool:
    """Whether samples are noise of deviation one: no mean, and no relation of neighbors."""
    flat = values.reshape(-1)
    mean, deviation, related = torch.stack([flat.mean(), flat.std(), (values[:, 1:] * values[:, :-1]).mean()]).tolist()
    return bool(abs(mean) < _WHITE and abs(deviation - 1) < _WHITE and abs(related) < _WHITE)


def _heads(value: Tensor) -> list[list[float]]:
    """The first and last numbers of each row of a condition, which the prompt changes."""
    flat = value.detach().reshape(len(value), -1)
    return cast(list[list[float]], torch.cat([flat[:, :4], flat[:, -4:]], 1).float().tolist())
