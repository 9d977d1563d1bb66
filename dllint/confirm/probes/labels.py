"""Labels of losses over classes: those that count from one (DL514), that are mostly of one class (DL517), all the same,
all ignored, or padding (DL108); logits that are too large, and those whose sum drifts away (DL907)."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import torch

from dllint.confirm.evidence import Histogram
from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, Stack, Tensor, decided, events, stack_of
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
_BATCHES = 5  # from which padding is told from labels that happen to repeat
_ROWS, _SHARE, _CONCENTRATION = 0.5, 0.05, 0.9
_NONE = 0.01
_WORDS = 512  # classes from which on these are words
_TEXTS = 512  # rows of words whose sums are looked at
_SPACING = 25  # steps between sums that are looked at
_STEPS = 500  # over which a drift is one
_PARTS = 5  # of that time, in each of which it has to go on
_DRIFT, _STEADY = 2.0, 1.5


class _Labels(Samples):
    """What the losses from one place were given; wrong: refused for a label that is one too high, or targets padded."""

    classes: int = 0
    counts: Tensor = torch.zeros(0)  # of labels, by class
    predicted: list[Tensor] = []  # the same of predictions, in each look
    ignored: list[float] = []
    logs: list[float] = []  # of the sum of the exponentials of a row of logits
    highest: float = 0.0
    is_half: bool = False
    values: Counter[int] = Counter()  # that fill the ends of rows
    clean: int = 0  # calls in which all padding, if any, is ignored
    shares: list[float] = []  # of the targets, that padding may be
    sums: list[tuple[int, float]] = []  # over words: by step, the mean of |log Z|

    def take(self, labels: Tensor, classes: int) -> None:
        """Note the labels of a loss."""
        self.count()
        if not self.classes:
            self.classes, self.counts = classes, torch.zeros(classes)
        self.counts = self.counts + _counted(labels, self.classes)


class Labels(PlaceProbe[_Labels]):
    def on_loss_call(self, call: events.LossCall) -> None:
        if call.function not in _LOSSES:
            return
        self._look_for_padding(call)
        scores = call.input.detach()
        if call.function == "cross_entropy" and scores.dim() == 2 and scores.shape[1] >= _WORDS:
            sums = self.at("DL907", stack_of(call)).sums
            if call.input.requires_grad and (not sums or self.run.steps >= sums[-1][0] + _SPACING):
                few = scores[:: max(1, len(scores) // _TEXTS)][:_TEXTS]  # a GPU may have no room for a copy of all
                sums.append((self.run.steps, float(few.float().logsumexp(1).abs().mean())))
        if _are_classes(call.input, call.target) and call.result.requires_grad:
            seen = self.sample("labels", stack_of(call))
            if seen is not None:
                kept = call.target != call.options.get("ignore_index", -100)
                seen.take(call.target[kept], scores.shape[1])
                if seen.classes <= _MOST:
                    seen.predicted.append(_counted(scores.argmax(1)[kept], seen.classes))
                if call.function == "cross_entropy":
                    self._look(seen, scores, kept)

    def _look_for_padding(self, call: events.LossCall) -> None:
        rows = _rows(call.target)
        seen = None if rows is None else self.sample("DL108", stack_of(call))
        if rows is not None and seen is not None:
            ends = (_at_the_end(rows), _at_the_end(rows.flip(1)))
            value, share, is_padding = max(ends, key=lambda end: (end[2], end[1]))
            is_ignored = value == call.options.get("ignore_index", -100)
            seen.count(is_padding and not is_ignored)
            seen.values[value] += 1
            seen.shares.append(share)
            seen.clean += is_ignored or share < _NONE

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
        if function in _LOSSES and _are_classes(input, target):
            seen = self.at("labels", stack)
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
            if seen.values:
                value, times = seen.values.most_common(1)[0]
                verdict = decided(seen.wrong == seen.looks == times >= _BATCHES, seen.clean == seen.looks >= ENOUGH)
                yield self.judgement("DL108", seen, verdict, value=value)
            if seen.sums:
                yield from self._drift(seen)

    def _balanced(self, seen: _Labels, counts: list[int]) -> Judgements:
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
        is_enough = len(seen.logs) >= ENOUGH
        for rule, is_wrong in (
            ("labels-constant", met == 1 < len(counts) and labels >= _ELEMENTS and not is_contrastive),
            ("labels-ignored", any(share == 1 for share in seen.ignored)),
            ("logits-too-large", seen.is_half and seen.highest > _HUGE_LOGIT),
        ):
            yield self.judgement(rule, seen, decided(is_enough and is_wrong, is_enough), met=met, labels=labels)

    def _drift(self, seen: _Labels) -> Judgements:
        """DL907: whether the mean of the logarithm of what a softmax divides by goes away from 0, on and on."""
        steps, size = seen.sums[-1][0] - seen.sums[0][0], len(seen.sums) // _PARTS
        parts = [seen.sums[index * size : (index + 1) * size] for index in range(_PARTS)] if size else []
        means = [sum(value for _, value in part) / len(part) for part in parts]
        if means and steps >= _STEPS:
            rises = all(after > before for before, after in pairwise(means))
            factor = means[-1] / means[0] if means[0] else 1.0
            seen.first, seen.last, seen.looks = seen.sums[0][0], seen.sums[-1][0], len(seen.sums)
            verdict = decided(rises and factor > _DRIFT, factor < _STEADY)
            yield self.judgement("DL907", seen, verdict, first=means[0], last=means[-1], steps=steps)


def _are_classes(scores: Tensor, target: Tensor) -> bool:
    is_index = not target.is_floating_point() and target.numel() > 0 and target.dim() == scores.dim() - 1
    return is_index and scores.dim() > 1


def _counted(labels: Tensor, classes: int) -> Tensor:
    """How often each class is met. Reads nothing from the device before it has been counted."""
    return torch.bincount(labels.reshape(-1).clamp(0, classes - 1), minlength=classes).cpu()


def _entropy(counts: list[int]) -> float:
    total = sum(counts)
    return -sum(count / total * math.log(count / total) for count in counts if count) if total else 0.0


def _rows(target: Tensor) -> Tensor | None:
    """The targets as one row per sequence; None where they are none of sequences."""
    base = target._base
    if target.dim() == 1 and base is not None and base.numel() == target.numel():
        target = base
    return target if target.dim() == 2 and min(target.shape) > 1 and not target.is_floating_point() else None


def _at_the_end(rows: Tensor) -> tuple[int, float, bool]:
    """The value at the end of most rows, the share of the targets that it fills there, and whether it is padding."""
    value = rows[:, -1].mode().values
    is_value = rows == value
    runs = is_value.flip(1).long().cumprod(1).sum(1)  # how many at the end of each row
    in_runs = torch.where(runs >= 2, runs, torch.zeros_like(runs)).sum()
    total = is_value.sum().clamp(min=1)
    share = float(in_runs / rows.numel())
    in_rows = float((runs >= 2).float().mean())
    return int(value), share, in_rows > _ROWS and share > _SHARE and float(in_runs / total) > _CONCENTRATION
