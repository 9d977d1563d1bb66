"""DL514 and DL517: labels that count from one, and labels that are mostly of one class."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from dllint.confirm.evidence import Judgement, Stack, Verdict, Voice
from dllint.confirm.probes.base import LossCall, Probe, stack_of

_LOSSES = ("cross_entropy", "nll_loss")
_FIRST = 10  # losses from each place that are looked at
_FEWEST = 64  # labels
_RARE = 20  # labels of a class from which it is one
_UNEVEN = 10.0  # times as many labels of one class as of another
_NARROW = 0.1  # of the entropy of the labels
_MOST = 10_000  # classes


@dataclass(slots=True)
class _Seen:
    """Labels and predictions of the losses from one place."""

    classes: int
    labels: Tensor
    losses: int = 0
    looks: int = 0
    beyond: int = 0  # losses that were refused for a label that is one too high
    last: int = 0
    recent: list[Tensor] = field(default_factory=list)  # predictions by class, of each look


class Classes(Probe):
    """Counts the labels of losses over classes, and what the model predicts."""

    name = "classes"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._seen: dict[Stack, _Seen] = {}

    def on_loss_call(self, call: LossCall) -> None:
        if call.function in _LOSSES and _are_classes(call.input, call.target) and call.result.requires_grad:
            seen = self._of(stack_of(call), call.input.shape[1])
            seen.losses += 1
            if seen.losses <= _FIRST or seen.losses % self.run.every == 0:
                kept = call.target != call.options.get("ignore_index", -100)
                self._look(seen, call.target[kept])
                scores = call.input.detach()
                seen.recent.append(_counted(scores.argmax(1)[kept], seen.classes))

    def on_loss_refused(self, function: str, input: Tensor, target: Tensor, stack: Stack) -> None:
        if function in _LOSSES and _are_classes(input, target) and target.device.type == "cpu":
            seen = self._of(stack, input.shape[1])
            seen.beyond += int(target.max()) == seen.classes
            self._look(seen, target[target < seen.classes])

    def _of(self, stack: Stack, classes: int) -> _Seen:
        if stack not in self._seen:
            self._seen[stack] = _Seen(classes, torch.zeros(classes))
        return self._seen[stack]

    def _look(self, seen: _Seen, labels: Tensor) -> None:
        seen.looks += 1
        seen.last = self.run.steps
        counts = _counted(labels, seen.classes)
        seen.labels = seen.labels + counts if len(counts) == len(seen.labels) else seen.labels

    def judge(self) -> Iterator[Judgement]:
        for stack, seen in self._seen.items():
            labels = [int(count) for count in seen.labels]
            verdict: Verdict = "REFUTED" if labels[0] else "CONFIRMED" if seen.beyond else "INCONCLUSIVE"
            yield self._judgement(
                "DL514", stack, seen, verdict, "alarm",
                f"{labels[0]} of {sum(labels)} labels are 0, and {seen.beyond} batches had the label {seen.classes}, "
                f"which {seen.classes} classes do not have",
                "a label that is one too high, and none that is 0; any that is 0 refutes",
            )  # fmt: skip
            if sum(labels) >= _FEWEST and seen.recent:
                yield self._imbalance(stack, seen, [count for count in labels if count])

    def _imbalance(self, stack: Stack, seen: _Seen, labels: list[int]) -> Judgement:
        """DL517."""
        later = [counts for counts in seen.recent[len(seen.recent) // 2 :] if len(counts) == seen.classes]
        predicted = torch.stack(later).sum(0).tolist() if later else []
        uneven = max(labels) / min(labels)
        is_narrow = _entropy(predicted) < _NARROW * _entropy(labels)
        is_uneven = uneven > _UNEVEN and len(labels) > 1 and max(labels) >= _RARE
        return self._judgement(
            "DL517", stack, seen, "REFUTED" if not is_uneven else "CONFIRMED" if is_narrow else "INCONCLUSIVE", "note",
            f"the commonest class has {uneven:.3g} times as many labels as the rarest, and predictions are of "
            f"{sum(count > 0 for count in predicted)} classes",
            "over 10 times as many, and predictions with less than 0.1 of the entropy of the labels; 10 refutes",
        )  # fmt: skip

    def _judgement(
        self, rule: str, stack: Stack, seen: _Seen, verdict: Verdict, voice: Voice, what: str, threshold: str
    ) -> Judgement:
        found = {"labels": [int(count) for count in seen.labels[:100]], "classes": seen.classes}
        steps = (0, seen.last)
        return Judgement(rule, self.name, verdict, what, threshold, found, seen.looks, steps, (stack,), voice)


def _are_classes(scores: Tensor, target: Tensor) -> bool:
    is_index = not target.is_floating_point() and target.numel() > 0 and target.dim() == scores.dim() - 1
    return is_index and scores.dim() > 1 and 1 < scores.shape[1] <= _MOST


def _counted(labels: Tensor, classes: int) -> Tensor:
    """How often each class is met. Reads nothing from the device before it has been counted."""
    return torch.bincount(labels.reshape(-1).clamp(0, classes - 1), minlength=classes).cpu()


def _entropy(counts: list[int]) -> float:
    total = sum(counts)
    return -sum(count / total * math.log(count / total) for count in counts if count) if total else 0.0
