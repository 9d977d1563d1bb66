"""DL514 and DL517: labels that count from one, and labels that are mostly of one class."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dllint.confirm.probes.base import Judgements, PlaceProbe, Samples, decided
from dllint.confirm.probes.events import LossCall, Stack, stack_of

_LOSSES = ("cross_entropy", "nll_loss")
_FEWEST = 64  # labels
_RARE = 20  # labels of a class from which it is one
_UNEVEN = 10.0  # times as many labels of one class as of another
_NARROW = 0.1  # of the entropy of the labels
_MOST = 10_000  # classes


@dataclass(slots=True, eq=False)
class _Labels(Samples):
    """Labels and predictions of the losses from one place; wrong are losses that were refused for a label that is one
    too high."""

    classes: int = 0
    labels: Tensor = field(default_factory=lambda: torch.zeros(0))
    recent: list[Tensor] = field(default_factory=list)  # predictions by class, of each look


class Classes(PlaceProbe[_Labels]):
    """Counts the labels of losses over classes, and what the model predicts."""

    def on_loss_call(self, call: LossCall) -> None:
        if call.function in _LOSSES and _are_classes(call.input, call.target) and call.result.requires_grad:
            seen = self.sample(stack_of(call))
            if seen is not None:
                kept = call.target != call.options.get("ignore_index", -100)
                _look(seen, call.target[kept], call.input.shape[1])
                scores = call.input.detach()
                seen.recent.append(_counted(scores.argmax(1)[kept], seen.classes))

    def on_loss_refused(self, function: str, input: Tensor, target: Tensor, stack: Stack) -> None:
        if function in _LOSSES and _are_classes(input, target) and target.device.type == "cpu":
            seen = self.at(stack)
            _look(seen, target[target < input.shape[1]], input.shape[1])
            seen.wrong += int(target.max()) == seen.classes

    def judge_each(self, seen: _Labels) -> Judgements:
        labels = [int(count) for count in seen.labels]
        found = {"labels": labels[:100], "zeros": labels[0], "number": sum(labels)}
        yield self.judgement("DL514", seen, decided(seen.wrong and not labels[0], labels[0]), **found)
        met = [count for count in labels if count]
        if sum(met) >= _FEWEST and seen.recent:
            later = [counts for counts in seen.recent[len(seen.recent) // 2 :] if len(counts) == seen.classes]
            predicted = torch.stack(later).sum(0).tolist() if later else []
            uneven, of = max(met) / min(met), sum(count > 0 for count in predicted)
            is_uneven = uneven > _UNEVEN and len(met) > 1 and max(met) >= _RARE
            is_narrow = _entropy(predicted) < _NARROW * _entropy(met)
            verdict = decided(is_uneven and is_narrow, not is_uneven)
            yield self.judgement("DL517", seen, verdict, **found, uneven=uneven, predicted=of)


def _look(seen: _Labels, labels: Tensor, classes: int) -> None:
    seen.count()
    if not seen.classes:
        seen.classes, seen.labels = classes, torch.zeros(classes)
    seen.labels = seen.labels + _counted(labels, seen.classes)


def _are_classes(scores: Tensor, target: Tensor) -> bool:
    is_index = not target.is_floating_point() and target.numel() > 0 and target.dim() == scores.dim() - 1
    return is_index and scores.dim() > 1 and 1 < scores.shape[1] <= _MOST


def _counted(labels: Tensor, classes: int) -> Tensor:
    """How often each class is met. Reads nothing from the device before it has been counted."""
    return torch.bincount(labels.reshape(-1).clamp(0, classes - 1), minlength=classes).cpu()


def _entropy(counts: list[int]) -> float:
    total = sum(counts)
    return -sum(count / total * math.log(count / total) for count in counts if count) if total else 0.0
