"""Compares the order of the channels of a sample with that of the image it was made of.

Both are averaged over the same grid. A sample that was resized, flipped, or cropped around its center lies upon its
image in one of a few ways; then each of its channels is a straight line over one of the image's, and which it is says
the order. A sample that was cropped elsewhere lies upon it in none, and only the averages of the channels are kept:
over many images, those say the order as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from dllint.confirm.inside.parts import leaves
from dllint.dataclass import dataclass

_GRID = 16  # cells a side
_PIXELS = 128  # a side that are averaged, at most
_SAMPLES = 16  # of a batch
_KEPT = 0.875  # of each side, where images are enlarged and cropped
_ALIGNED = 0.9  # correlation of the brightness of cells
_UNCLEAR, _TIMES = 0.05, 4  # what the other order has to leave unexplained, and how much more than the right one
_MEANS, _DEVIATIONS, _NEAR = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225), 0.02  # those of ImageNet, red first
_DEPTH = 2  # tuples and dicts in a sample
_SMALLEST = 16  # pixels a side of an image


@dataclass(slots=True)
class Source:
    """An image as OpenCV gives it, blue first, cut in some ways and averaged over a grid, and where it was read."""

    grids: Tensor  # way of cutting, channel, row, column
    place: list[list[Any]]


@dataclass(slots=True)
class Order:
    """What one sample shows: ``blue`` or ``red`` first, ``gray`` where that makes no difference, or ``apart`` where it
    does not lie upon its image. ``means`` are the differences of the means of the first and the last channel, of the
    sample (as it would be in the image's contrast) and of the image; ``as_red`` says that it is normalized with
    ImageNet's numbers, as if red were first."""

    kind: str
    means: list[float]
    as_red: bool
    place: list[list[Any]]


def source_of(image: Any, place: list[list[Any]]) -> Source | None:
    """What is kept of an image; None where it has no three channels."""
    shape: tuple[int, ...] = getattr(image, "shape", ())
    if len(shape) != 3 or shape[2] != 3 or min(shape[:2]) < _SMALLEST or str(image.dtype) != "uint8":
        return None
    rows, columns = (max(1, side // _PIXELS) for side in shape[:2])
    pixels = torch.tensor(image[::rows, ::columns]).permute(2, 0, 1).float()
    square = min(shape[:2])
    sides = ((1.0, 1.0), (_KEPT, _KEPT), (square / shape[0], square / shape[1]))
    cuts = [*sides, (_KEPT * sides[2][0], _KEPT * sides[2][1])]
    return Source(torch.stack([functional.adaptive_avg_pool2d(_center(pixels, *cut), _GRID) for cut in cuts]), place)


def compare(samples: list[Any], sources: list[Source]) -> Iterator[Order]:
    """The order of each sample, if the images that were read are as many for each."""
    pictures = [list(_pictures(sample)) for sample in samples]
    if not samples or len(sources) % len(samples) or any(len(one) != len(two) for one, two in pairwise(pictures)):
        return
    each = len(sources) // len(samples)
    for number, own in enumerate(pictures[:_SAMPLES]):
        of_sample = [(source, source.grids[0]) for source in sources[number * each : (number + 1) * each]]
        colored = [source for source, (first, _, last) in of_sample if bool((first - last).abs().max() >= 1)]
        for at, picture in enumerate(own if colored else []):
            is_paired = len(own) == len(colored)
            yield _best(functional.adaptive_avg_pool2d(picture.float(), _GRID), [colored[at]] if is_paired else colored)


def _best(grid: Tensor, sources: list[Source]) -> Order:
    """The order beside the image that the sample lies upon best."""
    scores = [_alignment(grid, source) for source in sources]
    score, flip, cut, at = max((score, flip, cut, number) for number, (score, flip, cut) in enumerate(scores))
    source = sources[at]
    whole = source.grids[0]
    contrast = [float(of.mean(0).std()) or 1.0 for of in (grid, whole)]
    means = [float((of[0] - of[2]).mean()) * contrast[1] / own for of, own in zip((grid, whole), contrast, strict=True)]
    if score < _ALIGNED:
        return Order("apart", means, False, source.place)
    return Order(*_order(_flips(grid)[flip], source.grids[cut], means), source.place)


def _order(grid: Tensor, image: Tensor, means: list[float]) -> tuple[str, list[float], bool]:
    lines = [[_line(image[to], grid[of]) for to in range(3)] for of in range(3)]
    own = [lines[channel][channel] for channel in range(3)]
    kept, swapped = own[0][0] + own[2][0], lines[0][2][0] + lines[2][0][0]
    if max(kept, swapped) < _UNCLEAR or max(kept, swapped) < _TIMES * min(kept, swapped):
        return "gray", means, False
    if swapped < kept:
        return "red", means, False
    as_red = all(
        slope > 0 and abs(-start / (255 * slope) - mean) < _NEAR and abs(1 / (255 * slope) - deviation) < _NEAR
        for (_, slope, start), mean, deviation in zip(own, _MEANS, _DEVIATIONS, strict=True)
    )
    return "blue", means, as_red


def _line(x: Tensor, y: Tensor) -> tuple[float, float, float]:
    """What a straight line through points leaves unexplained, as a share; its slope, and where it starts."""
    across, along = y - y.mean(), x - x.mean()
    slope = (across * along).sum() / along.square().sum().clamp_min(1e-9)
    left = (across - slope * along).square().sum() / across.square().sum().clamp_min(1e-9)
    return float(left), float(slope), float(y.mean() - slope * x.mean())


def _alignment(grid: Tensor, source: Source) -> tuple[float, int, int]:
    """The best correlation of the brightness, and by which flip of the sample and which cut of the image."""
    rows = (stacked.mean(1).flatten(1) for stacked in (_flips(grid), source.grids))
    own, others = (functional.normalize(each - each.mean(1, keepdim=True), dim=1) for each in rows)
    scores = own @ others.T
    best = int(scores.argmax())
    return float(scores.max()), best // len(others), best % len(others)


def _flips(grid: Tensor) -> Tensor:
    return torch.stack([grid, grid.flip(-1), grid.flip(-2), grid.flip(-1, -2)])


def _center(pixels: Tensor, rows: float, columns: float) -> Tensor:
    height, width = (max(1, round(side * kept)) for side, kept in zip(pixels.shape[1:], (rows, columns), strict=True))
    top, left = (pixels.shape[1] - height) // 2, (pixels.shape[2] - width) // 2
    return pixels[:, top : top + height, left : left + width]


def _pictures(value: Any) -> Iterator[Tensor]:
    """The images with three channels in a sample, channels first."""
    for _, part in leaves(value, _DEPTH):
        if type(part).__module__ == "numpy" and hasattr(part, "strides") and part.dtype.kind in "fu":
            part = torch.from_numpy(part.copy())
        if isinstance(part, Tensor) and part.dim() == 3:
            first = part.detach() if part.shape[0] == 3 else part.detach().permute(2, 0, 1)
            if first.shape[0] == 3 and min(first.shape[1:]) >= _SMALLEST:
                yield first
