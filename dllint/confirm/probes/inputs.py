"""Ranges and channels of what models are given (DL503, DL504, DL510). Looks at the inputs of models that are trained,
and knows those that a library loaded weights into, which were trained on normalized images."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from weakref import WeakSet

import torch

from dllint.confirm.evidence import histogram
from dllint.confirm.inside.parts import some
from dllint.confirm.inside.stacks import frames
from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, Tensor, decided, events, nn, stack_of
from dllint.confirm.probes.events import Stack

_LARGE, _SMALL = 20.0, 0.02  # the highest of values that are none below zero
_NORMALISED, _DARK = -3.0, -1.5  # below what black becomes, and above what it and all close to it become
_BRIGHT = 0.2  # mean of images that are not normalized
_FEW = 8  # columns of what are indices of something
_ELEMENTS = 16  # from which a range says something
_VALUES = 4096  # that the histogram is made of
_LIBRARIES = ("torchvision.models", "timm.")
_FRAMES = 17  # between the library and what loads
_NORMALISING = ("mean", "std", "transform", "transform_input", "normalize", "norm_mean", "image_mean", "pixel_mean")


class _Inputs(Samples):
    """The first tensor that models are given at one place, in the calls that were looked at."""

    shape: list[int] = []  # in the first call
    lows: list[float] = []
    highs: list[float] = []
    means: list[float] = []
    broken: list[float] = []  # numbers that are not finite
    channels: list[list[float]] = []  # means, in the last call
    values: Tensor = torch.zeros(0)
    masks: int = 0  # calls in which it was -inf somewhere, and 0 elsewhere
    are_indices: bool = True  # whole numbers, of a few columns
    pretrained: int = 0  # calls with images of a model with weights of a library
    bright: int = 0  # those of them in which the images were from 0 to 1


class Inputs(PlaceProbe[_Inputs]):
    at_first = 5
    _loaded: WeakSet[nn.Module] = WeakSet()

    def on_state_restored(self, event: events.StateRestored) -> None:
        names = (str(frame.f_globals.get("__name__", "")) for frame in islice(frames(), _FRAMES))
        if isinstance(event.target, nn.Module) and any(name.startswith(_LIBRARIES) for name in names):
            self._loaded.add(event.target)

    def on_model_forward(self, event: events.ModelForward) -> None:
        first = next((value for value in event.arguments.all() if isinstance(value, Tensor)), torch.zeros(0))
        is_dense = first.layout == torch.strided and first.is_floating_point()
        if event.grad == "on" and is_dense and first.dim() > 1 and first.numel() >= _ELEMENTS:
            seen = self.sample(stack_of(event))
            if seen is not None:
                seen.shape = seen.shape or list(first.shape)
                parts = list(event.model.modules()) if self._loaded else []
                normalizes = any(hasattr(part, name) for part in parts[:2] for name in _NORMALISING)
                self._look(seen, first.detach().float(), not normalizes and any(part in self._loaded for part in parts))

    def _look(self, seen: _Inputs, values: Tensor, is_pretrained: bool) -> None:
        """Take in a tensor. Reads from the device once."""
        seen.count()
        finite = torch.nan_to_num(values, 0.0, 0.0, 0.0)
        low, high = finite.aminmax()
        is_masking = ((finite == 0) & (values != float("inf"))).all()  # 0 and -inf, which is added to scores
        broken = torch.where(is_masking, values.isnan(), ~values.isfinite()).sum().float()
        is_whole = (finite == finite.round()).all().float()
        masks = (is_masking & values.isneginf().any()).float()
        numbers = [low, high, finite.mean(), broken, is_whole, masks]
        if values.dim() == 4 and values.shape[1] <= 4:
            numbers += [*finite.mean((0, 2, 3)), *finite.std((0, 2, 3))]
        low_, high_, mean, not_finite, whole, masking, *channels = torch.stack(numbers).tolist()
        seen.lows.append(low_)
        seen.highs.append(high_)
        seen.means.append(mean)
        seen.broken.append(not_finite)
        if is_pretrained and len(seen.shape) == 4 and seen.shape[1] == 3:
            seen.pretrained += 1
            seen.bright += low_ >= 0 and high_ <= 1 and mean > _BRIGHT
        seen.masks += bool(masking)
        seen.are_indices = seen.are_indices and bool(whole) and values.shape[-1] <= _FEW
        half = len(channels) // 2
        seen.channels = [channels[:half], channels[half:]]
        seen.values = some(finite, _VALUES).clone()

    def judge(self) -> Judgements:
        for number, seen in enumerate(self.noted(), 1):
            bars = histogram(seen.values.tolist())
            if bars is not None:
                self.run.record.pictures.histograms[f"input of a model ({named_place(seen.stacks[0], number)})"] = bars
            yield from self.judge_each(seen)

    def judge_each(self, seen: _Inputs) -> Judgements:
        channels = {"means_of_channels": seen.channels[0], "deviations_of_channels": seen.channels[1]}
        for rule, is_wrong, told in _facts(seen):
            is_enough = seen.looks >= ENOUGH
            verdict = decided(is_wrong and (is_enough or rule == "input-not-finite"), is_enough)
            yield self.judgement(rule, seen, verdict, f"the input of shape {seen.shape} {told}", **channels)
        if seen.pretrained:
            numbers = Samples((), seen.stacks, seen.first, seen.last, looks=seen.pretrained, wrong=seen.bright)
            yield self.judgement("DL510", numbers, numbers.unanimous, low=min(seen.lows), high=max(seen.highs))


def _facts(seen: _Inputs) -> Iterator[tuple[str, bool, str]]:
    """What is asked of inputs: the code, whether it is so, and the numbers in words."""
    low, high = min(seen.lows), max(seen.highs)
    span = f"lies in {low:.3g} to {high:.3g}"
    broken = sum(count > 0 for count in seen.broken)
    yield "input-not-finite", broken > 0, f"had numbers that are not finite in {broken} of {seen.looks} calls"
    is_constant = low == high
    what = f"was {low:.3g} throughout" if is_constant else f"varies: it {span}"
    yield "input-constant", is_constant and not seen.masks, what
    large = low >= 0 and min(seen.highs) > _LARGE
    small = low >= 0 and 0 < high < _SMALL
    unscaled, twice = f"{span}, as if it had not been scaled", f"{span}, as if it had been scaled twice"
    if len(seen.shape) == 4 and seen.shape[1] <= 4:  # images may have been normalized after they were scaled wrongly
        large = large or (low > _NORMALISED and min(seen.highs) > _LARGE)
        spans = [high - low for low, high in zip(seen.lows, seen.highs, strict=True)]
        small = small or high < _DARK or 0 < max(spans) < _SMALL
        yield "DL503", large, unscaled if large else span
        yield "DL504", small, twice if small else span
    else:
        large = large and not seen.are_indices
        yield "input-range", large or small, unscaled if large else twice if small else span


def named_place(stack: Stack, number: int) -> str:
    return f"line {stack[0].line}" if stack else f"place {number}"
