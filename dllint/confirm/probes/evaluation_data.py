"""DL507 and DL508: whether evaluation is given the same data in each pass, and data of the same scale as training.
Compares the first batches of passes in which a model is only evaluated, and images with those of training."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from dllint.confirm.inside.parts import some, tensors
from dllint.confirm.probes.base import Judgements, Probe, decided
from dllint.confirm.probes.events import Batches

_PASSES, _BATCHES = 4, 8  # of each loader, and of each pass, that are looked at
_CHANNELS = 4  # of an image, at most
_VALUES = 4096  # of the first batch that are kept
_FEWEST = 64  # images of each kind that can be compared
_SHIFT, _NO_SHIFT = 0.3, 0.15  # of the mean, in deviations
_RATIOS, _SAME_RATIOS = (0.7, 1.4), (0.85, 1.18)  # of the deviations


@dataclass(slots=True)
class _Pass:
    """One pass over a loader: its first batch, and sums over the channels of its images."""

    batches: Batches
    values: Tensor | None = None
    sums: list[tuple[int, Tensor]] = field(default_factory=list)  # of each batch: images; means, means of squares

    @property
    def evaluates(self) -> bool:
        """Whether a model was called without gradients, and nothing was trained."""
        return self.batches.is_evaluated and not self.batches.trained


class EvaluationData(Probe):
    def begin(self) -> None:
        self._passes: dict[Batches, _Pass] = {}

    def on_batch(self, batches: Batches, batch: Any) -> None:
        if batches.loader is None or batches.number >= _PASSES or batches.taken > _BATCHES:
            return
        seen = self._passes.setdefault(batches, _Pass(batches))
        floating = (part for part in tensors(batch, 2) if part.is_floating_point() and part.numel())
        tensor = next(floating, torch.empty(0)).detach()
        if batches.taken == 1 and batches.indices and tensor.numel():
            seen.values = some(tensor, _VALUES).clone()
        if tensor.dim() == 4 and tensor.shape[1] <= _CHANNELS:
            values = tensor.float()
            seen.sums.append((len(values), torch.stack([values.mean((0, 2, 3)), values.square().mean((0, 2, 3))])))

    def judge(self) -> Judgements:
        for source in self.run.feed.sources:
            passes = [self._passes[batches] for batches in source.passes if batches in self._passes]
            evaluating = [each for each in passes if each.evaluates]
            comparable = [pair for pair in pairwise(evaluating) if _are_comparable(*pair)]
            if evaluating:
                different = sum(not torch.equal(a.values, b.values) for a, b in comparable)  # type: ignore[arg-type]
                found = {"different": different, "compared": len(comparable)}
                yield self.judgement("DL508", self.whole(), decided(different, comparable), **found)
        yield from self._scales()

    def _scales(self) -> Judgements:
        """DL507."""
        training = _statistics([each for each in self._passes.values() if each.batches.trained])
        evaluation = _statistics([each for each in self._passes.values() if each.evaluates])
        if training is None or evaluation is None or len(training[1]) != len(evaluation[1]):
            return
        shift = float(((evaluation[1] - training[1]).abs() / training[2].clamp(min=1e-9)).max())
        ratios = (evaluation[2] / training[2].clamp(min=1e-9)).tolist()
        is_other = shift > _SHIFT or not all(_RATIOS[0] <= ratio <= _RATIOS[1] for ratio in ratios)
        is_same = shift < _NO_SHIFT and all(_SAME_RATIOS[0] <= ratio <= _SAME_RATIOS[1] for ratio in ratios)
        images = min(training[0], evaluation[0])
        verdict = decided(is_other, is_same) if images >= _FEWEST else "INCONCLUSIVE"
        yield self.judgement("DL507", self.whole(), verdict, shift=shift, ratios=ratios, images=images)


def _are_comparable(a: _Pass, b: _Pass) -> bool:
    """Whether two passes began with the same samples."""
    if a.values is None or b.values is None or a.values.shape != b.values.shape:
        return False
    return bool(a.batches.indices[0] == b.batches.indices[0])


def _statistics(passes: list[_Pass]) -> tuple[int, Tensor, Tensor] | None:
    """The number of images, and the means and deviations of their channels; None where there are none to compare."""
    sums = [pair for each in passes for pair in each.sums]
    if not sums or len({len(moments[0]) for _, moments in sums}) > 1:
        return None
    images = sum(number for number, _ in sums)
    mean, square = torch.stack([number * moments.cpu() for number, moments in sums]).sum(0) / images
    return images, mean, (square - mean.square()).clamp(min=0).sqrt()
