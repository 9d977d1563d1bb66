"""DL507 and DL508: whether evaluation is given the same data in each pass, and data of the same scale as training."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from dllint.confirm.evidence import Judgement, Verdict
from dllint.confirm.probes.base import Batches, Probe
from dllint.events import ModelForward

_PASSES, _BATCHES = 4, 8  # of each loader, and of each pass, that are looked at
_CHANNELS = 4  # of an image, at most
_VALUES = 4096  # of the first batch that are kept
_FEWEST = 64  # images of each kind that can be compared
_SHIFT, _NO_SHIFT = 0.3, 0.15  # of the mean, in deviations
_RATIOS, _SAME_RATIOS = (0.7, 1.4), (0.85, 1.18)  # of the deviations


@dataclass(slots=True)
class _Pass:
    """One pass over a loader: its first batch, and sums over the channels of its images."""

    indices: Any = None
    values: Tensor | None = None
    sums: list[tuple[int, Tensor]] = field(default_factory=list)  # of each batch: images; means, means of squares
    evaluates: bool = False
    trains: bool = False


class EvaluationData(Probe):
    """Compares the first batches of passes in which a model is only evaluated, and images with those of training."""

    name = "evaluation_data"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._loaders: list[list[_Pass]] = []
        self._by_loader: WeakKeyDictionary[Any, list[_Pass]] = WeakKeyDictionary()
        self._latest: _Pass | None = None

    def on_batch(self, batches: Batches, batch: Any) -> None:
        self._latest = None
        loader = batches.loader
        if loader is None or batches.number >= _PASSES:
            return
        passes = self._by_loader.get(loader)
        if passes is None:
            passes = self._by_loader[loader] = []
            self._loaders.append(passes)
        while len(passes) <= batches.number:
            passes.append(_Pass())
        self._latest = passes[batches.number]
        tensor = next(_tensors(batch, 2), None) if batches.taken <= _BATCHES else None
        if tensor is not None:
            self._look(self._latest, tensor, batches)

    def _look(self, seen: _Pass, tensor: Tensor, batches: Batches) -> None:
        tensor = tensor.detach()
        if batches.taken == 1 and batches.indices:
            flat = tensor.reshape(-1)
            seen.indices = batches.indices[0]
            seen.values = flat[:: max(1, flat.numel() // _VALUES)].clone()
        if tensor.dim() == 4 and tensor.shape[1] <= _CHANNELS:
            values = tensor.float()
            seen.sums.append((len(values), torch.stack([values.mean((0, 2, 3)), values.square().mean((0, 2, 3))])))

    def on_model_forward(self, event: ModelForward[Any]) -> None:
        if self._latest is not None and event.grad != "on":
            self._latest.evaluates = True

    def before_backward(self, call: Any) -> None:
        if self._latest is not None:
            self._latest.trains = True

    def judge(self) -> Iterator[Judgement]:
        for passes in self._loaders:
            evaluating = [each for each in passes if each.evaluates and not each.trains]
            comparable = [pair for pair in pairwise(evaluating) if _are_comparable(*pair)]
            if evaluating:
                different = sum(not torch.equal(a.values, b.values) for a, b in comparable)  # type: ignore[arg-type]
                yield self._judgement(
                    "DL508",
                    "INCONCLUSIVE" if not comparable else "CONFIRMED" if different else "REFUTED",
                    f"{different} of {len(comparable)} passes of evaluation gave other values for the same samples",
                    "any; none refutes",
                    {"different": different, "compared": len(comparable)},
                )
        yield from self._scales()

    def _scales(self) -> Iterator[Judgement]:
        every = [each for passes in self._loaders for each in passes if each.sums]
        training = _statistics([each for each in every if each.trains])
        evaluation = _statistics([each for each in every if each.evaluates and not each.trains])
        if training is None or evaluation is None or len(training[1]) != len(evaluation[1]):
            return
        shift = float(((evaluation[1] - training[1]).abs() / training[2].clamp(min=1e-9)).max())
        ratios = (evaluation[2] / training[2].clamp(min=1e-9)).tolist()
        is_other = shift > _SHIFT or not all(_RATIOS[0] <= ratio <= _RATIOS[1] for ratio in ratios)
        is_same = shift < _NO_SHIFT and all(_SAME_RATIOS[0] <= ratio <= _SAME_RATIOS[1] for ratio in ratios)
        images = min(training[0], evaluation[0])
        verdict: Verdict = "CONFIRMED" if is_other else "REFUTED" if is_same else "INCONCLUSIVE"
        yield self._judgement(
            "DL507",
            verdict if images >= _FEWEST else "INCONCLUSIVE",
            f"the mean of a channel of evaluation is {shift:.2g} deviations from that of training, and the channels "
            f"deviate {', '.join(f'{ratio:.2g}' for ratio in ratios)} times as much",
            "more than 0.3 deviations, or a ratio outside of 0.7 to 1.4, over 64 images of each; less than 0.15, and "
            "0.85 to 1.18, refutes",
            {"shift": shift, "ratios": ratios, "images": images},
        )

    def _judgement(self, rule: str, verdict: Verdict, what: str, threshold: str, found: dict[str, Any]) -> Judgement:
        return Judgement(rule, self.name, verdict, what, threshold, found, 1, (0, self.run.steps), voice="note")


def _tensors(value: Any, depth: int) -> Iterator[Tensor]:
    """The floating tensors of a batch."""
    if isinstance(value, Tensor):
        if value.is_floating_point() and value.numel():
            yield value
    elif depth:
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
        for part in parts:
            yield from _tensors(part, depth - 1)


def _are_comparable(a: _Pass, b: _Pass) -> bool:
    """Whether two passes began with the same samples."""
    if a.values is None or b.values is None or a.values.shape != b.values.shape:
        return False
    return bool(a.indices == b.indices)


def _statistics(passes: list[_Pass]) -> tuple[int, Tensor, Tensor] | None:
    """The number of images, and the means and deviations of their channels; None where there are none to compare."""
    sums = [pair for each in passes for pair in each.sums]
    if not sums or len({len(moments[0]) for _, moments in sums}) > 1:
        return None
    images = sum(number for number, _ in sums)
    mean, square = torch.stack([number * moments.cpu() for number, moments in sums]).sum(0) / images
    return images, mean, (square - mean.square()).clamp(min=0).sqrt()
