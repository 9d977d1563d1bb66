"""Labels of losses over classes: those that count from one (DL514), that are mostly of one class (DL517), all the same,
or all ignored; and the largest logits."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dllint.confirm.pictures import Histogram
from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, decided
from dllint.confirm.probes.events import LossCall, Stack, stack_of
from dllint.confirm.probes.inputs import named_place

_LOSSES = ("cross_entropy", "nll_loss")
_MOST = 10_000  # classes; words of a language are more
_FEWEST = 64  # labels
_RARE = 20  # labels of a class from which it is one
_UNEVEN = 10.0  # times as many labels of one class as of another
_NARROW = 0.1  # of the entropy of the labels
_ELEMENTS = 16  # labels from which it counts that they are the same
_SHOWN = 100  # classes that the report draws
_HUGE_LOGIT = 100.0


@dataclass(slots=True, eq=False)
class _Labels(Samples):
    """What the losses from one place were given; wrong are those that were refused for a label that is one too high."""

    classes: int = 0
    counts: Tensor = field(default_factory=lambda: torch.zeros(0))  # of labels, by class
    predicted: list[Tensor] = field(default_factory=list)  # the same of predictions, in each look
    ignored: list[float] = field(default_factory=list)
    logs: list[float] = field(default_factory=list)  # of the sum of the exponentials of a row of logits
    highest: float = 0.0
    is_half: bool = False

    def take(self, labels: Tensor, classes: int) -> None:
        """Note the labels of a loss."""
        self.count()
        if not self.classes:
            self.classes, self.counts = classes, torch.zeros(classes)
        self.counts = self.counts + _counted(labels, self.classes)


class Labels(PlaceProbe[_Labels]):
    def on_loss_call(self, call: LossCall) -> None:
        if call.function in _LOSSES and _are_classes(call.input, call.target) and call.result.requires_grad:
            seen, scores = self.sample(stack_of(call)), call.input.detach()
            if seen is not None:
                kept = call.target != call.options.get("ignore_index", -100)
                seen.take(call.target[kept], scores.shape[1])
                if seen.classes <= _MOST:
                    seen.predicted.append(_counted(scores.argmax(1)[kept], seen.classes))
                if call.function == "cross_entropy":
                    self._look(seen, scores, kept)

    def _look(self, seen: _Labels, logits: Tensor, kept: Tensor) -> None:
        """Take in logits. Reads from the device once."""
        few = logits[:256].float()
        numbers = [1 - kept.float().mean(), few.logsumexp(1).mean(), few.abs().max()]
        ignored, log, highest = torch.stack(numbers).tolist()
        seen.ignored.append(ignored)
        seen.logs.append(log)
        seen.highest = max(seen.highest, highest)
        seen.is_half = logits.dtype in (torch.float16, torch.bfloat16)
        self.run.trace("log of the sum of exponentials", log)

    def on_loss_refused(self, function: str, input: Tensor, target: Tensor, stack: Stack) -> None:
        if function in _LOSSES and _are_classes(input, target) and target.device.type == "cpu":
            seen = self.at(stack)
            seen.take(target[target < input.shape[1]], input.shape[1])
            seen.wrong += int(target.max()) == seen.classes

    def judge(self) -> Judgements:
        for number, seen in enumerate(self.noted(), 1):
            counts = [int(count) for count in seen.counts]
            if 1 < len(counts) <= _SHOWN:
                name = f"labels by class ({named_place(seen.stacks[0], number)})"
                self.run.record.pictures.histograms[name] = Histogram(0.0, float(len(counts)), counts)
            if 1 < len(counts) <= _MOST:
                yield from self._balanced(seen, counts)
            if seen.logs:
                yield from self._useful(seen, counts)

    def _balanced(self, seen: _Labels, counts: list[int]) -> Judgements:
        """DL514 and DL517."""
        found = {"labels": counts[:_SHOWN], "zeros": counts[0], "number": sum(counts)}
        yield self.judgement("DL514", seen, decided(seen.wrong and not counts[0], counts[0]), **found)
        met = [count for count in counts if count]
        if sum(met) >= _FEWEST and seen.predicted:
            later = [each for each in seen.predicted[len(seen.predicted) // 2 :] if len(each) == seen.classes]
            predicted = torch.stack(later).sum(0).tolist() if later else []
            uneven, of = max(met) / min(met), sum(count > 0 for count in predicted)
            is_uneven = uneven > _UNEVEN and len(met) > 1 and max(met) >= _RARE
            is_narrow = _entropy(predicted) < _NARROW * _entropy(met)
            verdict = decided(is_uneven and is_narrow, not is_uneven)
            yield self.judgement("DL517", seen, verdict, **found, uneven=uneven, predicted=of)

    def _useful(self, seen: _Labels, counts: list[int]) -> Judgements:
        met, labels = sum(count > 0 for count in counts), sum(counts)
        is_contrastive = counts[0] > 0 and len(counts) >= labels / seen.looks - 2  # the first class of each is its own
        facts = {
            "labels-constant": met == 1 < len(counts) and labels >= _ELEMENTS and not is_contrastive,
            "labels-ignored": any(share == 1 for share in seen.ignored),
            "logits-too-large": seen.is_half and seen.highest > _HUGE_LOGIT,
        }
        for rule, is_wrong in facts.items():
            is_enough = len(seen.logs) >= ENOUGH
            yield self.judgement(rule, seen, decided(is_enough and is_wrong, is_enough), met=met, labels=labels)


def _are_classes(scores: Tensor, target: Tensor) -> bool:
    is_index = not target.is_floating_point() and target.numel() > 0 and target.dim() == scores.dim() - 1
    return is_index and scores.dim() > 1


def _counted(labels: Tensor, classes: int) -> Tensor:
    """How often each class is met. Reads nothing from the device before it has been counted."""
    return torch.bincount(labels.reshape(-1).clamp(0, classes - 1), minlength=classes).cpu()


def _entropy(counts: list[int]) -> float:
    total = sum(counts)
    return -sum(count / total * math.log(count / total) for count in counts if count) if total else 0.0
