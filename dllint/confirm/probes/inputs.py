"""DL503, DL504: ranges and channels of what models are given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from dllint.confirm.evidence import Judgement, Stack, Voice
from dllint.confirm.pictures import histogram
from dllint.confirm.probes.base import ENOUGH, Probe, stack_of
from dllint.events import ModelForward

_FIRST = 5  # calls from each place that are all looked at
_LARGE, _SMALL = 20.0, 0.02  # the highest of values that are none below zero
_NORMALISED, _DARK = -3.0, -1.5  # below what black becomes, and above what it and all close to it become
_FEW = 8  # columns of what are indices of something
_ELEMENTS = 16  # from which a range says something
_VALUES = 4096  # that the histogram is made of


@dataclass(slots=True)
class _Inputs:
    """The first tensor that models are given at one place, in the calls that were looked at."""

    shape: list[int]
    calls: int = 0
    lows: list[float] = field(default_factory=list)
    highs: list[float] = field(default_factory=list)
    means: list[float] = field(default_factory=list)
    broken: list[float] = field(default_factory=list)  # numbers that are not finite
    channels: list[list[float]] = field(default_factory=list)  # means, in the last call
    values: Tensor | None = None
    masks: int = 0  # calls in which it was -inf somewhere, and 0 elsewhere
    are_indices: bool = True  # whole numbers, of a few columns
    last: int = 0


class Inputs(Probe):
    """Looks at the inputs of models that are trained."""

    name = "inputs"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._seen: dict[Stack, _Inputs] = {}

    def on_model_forward(self, event: ModelForward[Any]) -> None:
        if event.grad != "on":
            return
        first = next(
            (value for value in event.arguments.all() if isinstance(value, Tensor)),
            None,
        )
        if first is None or not _is_input(first):
            return
        seen = self._seen.setdefault(stack_of(event), _Inputs(list(first.shape)))
        seen.calls += 1
        if seen.calls <= _FIRST or seen.calls % self.run.every == 0:
            self._look(seen, first.detach().float())

    def _look(self, seen: _Inputs, values: Tensor) -> None:
        """Take in a tensor. Reads from the device once."""
        finite = torch.nan_to_num(values, 0.0, 0.0, 0.0)
        low, high = finite.aminmax()
        is_masking = ((finite == 0) & (values != float("inf"))).all()  # 0 and -inf, which is added to scores
        broken = torch.where(is_masking, values.isnan(), ~values.isfinite()).sum().float()
        is_whole = (finite == finite.round()).all().float()
        masks = (is_masking & values.isneginf().any()).float()
        numbers = [low, high, finite.mean(), broken, is_whole, masks]
        images = values.dim() == 4 and values.shape[1] <= 4
        if images:
            numbers += [*finite.mean((0, 2, 3)), *finite.std((0, 2, 3))]
        low_, high_, mean, not_finite, whole, masking, *channels = torch.stack(numbers).tolist()
        seen.lows.append(low_)
        seen.highs.append(high_)
        seen.means.append(mean)
        seen.broken.append(not_finite)
        seen.masks += bool(masking)
        seen.are_indices = seen.are_indices and bool(whole) and values.shape[-1] <= _FEW
        half = len(channels) // 2
        seen.channels = [channels[:half], channels[half:]]
        seen.values = finite.reshape(-1)[:: max(1, finite.numel() // _VALUES)][:_VALUES].clone()
        seen.last = self.run.steps

    def judge(self) -> Iterator[Judgement]:
        for number, (stack, seen) in enumerate(self._seen.items(), 1):
            bars = histogram([] if seen.values is None else seen.values.tolist())
            if bars is not None:
                self.run.pictures.histograms[f"input of a model ({named_place(stack, number)})"] = bars
            for rule, is_wrong, needed, what, threshold, voice in _facts(seen):
                looked = len(seen.lows)
                yield Judgement(
                    rule,
                    self.name,
                    "CONFIRMED" if is_wrong and looked >= needed else "REFUTED" if looked >= ENOUGH else "INCONCLUSIVE",
                    f"the input of shape {seen.shape} {what}",
                    threshold,
                    {
                        "low": min(seen.lows),
                        "high": max(seen.highs),
                        "means": seen.means[-5:],
                        "not_finite": sum(seen.broken),
                        "means_of_channels": seen.channels[0],
                        "deviations_of_channels": seen.channels[1],
                    },
                    looked,
                    (0, seen.last),
                    (stack,),
                    voice,
                )


def _facts(seen: _Inputs) -> Iterator[tuple[str, bool, int, str, str, Voice]]:
    low, high = min(seen.lows), max(seen.highs)
    span = f"lies in {low:.3g} to {high:.3g}"
    broken = [count for count in seen.broken if count]
    what = f"had numbers that are not finite in {len(broken)} of {len(seen.broken)} calls"
    yield "input-not-finite", bool(broken), 1, what, "any such number; none in 3 calls refutes", "alarm"
    what = f"was {low:.3g} throughout" if low == high else f"varies: it {span}"
    yield (
        "input-constant",
        low == high and not seen.masks,
        ENOUGH,
        what,
        "one value in 3 or more calls; several refute",
        "note",
    )
    large = all(value >= 0 for value in seen.lows) and min(seen.highs) > _LARGE
    small = low >= 0 and 0 < high < _SMALL
    if len(seen.shape) == 4 and seen.shape[1] <= 4:
        yield from _scaled(seen, large, small, span)
        return
    large = large and not seen.are_indices
    scaled = "as if it had not been scaled" if large else "as if it had been scaled twice"
    what = f"{span}, {scaled}" if large or small else span
    threshold = "none below 0, and the highest over 20 or under 0.02 in all of 3 or more calls; else refuted"
    yield "input-range", large or small, ENOUGH, what, threshold, "note"


def _scaled(seen: _Inputs, large: bool, small: bool, span: str) -> Iterator[tuple[str, bool, int, str, str, Voice]]:
    """DL503 and DL504, of images, which may also have been normalized after they had been scaled wrongly."""
    large = large or (min(seen.lows) > _NORMALISED and min(seen.highs) > _LARGE)
    spans = [high - low for low, high in zip(seen.lows, seen.highs, strict=True)]
    small = small or max(seen.highs) < _DARK or 0 < max(spans) < _SMALL
    what = f"{span}, as if it had not been scaled" if large else span
    threshold = "none below -3, and the highest over 20, in all of 3 or more calls; else refuted"
    yield "DL503", large, ENOUGH, what, threshold, "note"
    what = f"{span}, as if it had been scaled twice" if small else span
    threshold = (
        "less than 0.02 from the lowest to the highest, or all below -1.5, in all of 3 or more calls; else refuted"
    )
    yield "DL504", small, ENOUGH, what, threshold, "note"


def _is_input(value: Any) -> bool:
    is_dense = isinstance(value, Tensor) and value.layout == torch.strided and value.is_floating_point()
    return is_dense and value.dim() > 1 and value.numel() >= _ELEMENTS


def named_place(stack: Stack, number: int) -> str:
    return f"line {stack[0].line}" if stack else f"place {number}"
