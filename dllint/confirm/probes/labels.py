"""Labels by class, and the largest logits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from dllint.confirm.evidence import Judgement, Stack, Verdict
from dllint.confirm.pictures import Histogram
from dllint.confirm.probes.base import ENOUGH, LossCall, PlaceProbe, Samples, spread, stack_of
from dllint.confirm.probes.inputs import named_place

_ELEMENTS = 16  # from which a range says something
_CLASSES = 100  # that the report draws
_HUGE_LOGIT = 100.0
_HALF = (torch.float16, torch.bfloat16)


@dataclass(slots=True, eq=False)
class _Labels(Samples):
    """The labels of a loss over classes at one place, and its logits."""

    counts: Tensor | None = None  # by class
    ignored: list[float] = field(default_factory=list)
    logs: list[float] = field(default_factory=list)  # of the sum of the exponentials of a row
    highest: float = 0.0
    is_half: bool = False


class Labels(PlaceProbe[_Labels]):
    """Looks at the labels and the logits of cross-entropy."""

    name = "labels"
    samples = _Labels
    at_first = 5

    def on_loss_call(self, call: LossCall) -> None:
        is_classes = not call.target.is_floating_point() and call.input.dim() > 1 and call.target.numel() > 0
        if call.function != "cross_entropy" or not is_classes or not call.result.requires_grad:
            return
        seen = self.sample(stack_of(call))
        if seen is not None:
            self._look(seen, call)

    def _look(self, seen: _Labels, call: LossCall) -> None:
        """Take in labels and logits. Reads from the device twice."""
        scores, labels = call.input.detach(), call.target.detach().reshape(-1)
        classes = scores.shape[1]
        kept = labels != call.options.get("ignore_index", -100)
        counts = torch.bincount(labels[kept].clamp(0, classes - 1), minlength=classes).cpu()
        seen.counts = counts if seen.counts is None or seen.counts.shape != counts.shape else seen.counts + counts
        few = scores[:256].float()
        numbers = [1 - kept.float().mean(), few.logsumexp(1).mean(), few.abs().max()]
        ignored, log, highest = torch.stack(numbers).tolist()
        seen.looks += 1
        seen.ignored.append(ignored)
        seen.logs.append(log)
        seen.highest = max(seen.highest, highest)
        seen.is_half = scores.dtype in _HALF
        self.run.trace("log of the sum of exponentials", log)

    def judge(self) -> Iterator[Judgement]:
        for number, (stack, seen) in enumerate(self.seen.items(), 1):
            counts = [] if seen.counts is None else [int(count) for count in seen.counts]
            if 1 < len(counts) <= _CLASSES:
                name = f"labels by class ({named_place(stack, number)})"
                self.run.pictures.histograms[name] = Histogram(0.0, float(len(counts)), counts)
            met = sum(count > 0 for count in counts)
            yield self._told(
                "labels-constant", seen, stack,
                met == 1 and sum(counts) >= _ELEMENTS and not _is_contrastive(seen, counts),
                f"{met} of {len(counts)} classes are among {sum(counts)} labels",
                "one class in 3 or more batches of 16 or more labels together, unless it is the first of as many as "
                "there are labels in a batch; several refute",
            )  # fmt: skip
            yield self._told(
                "labels-ignored", seen, stack, any(share == 1 for share in seen.ignored),
                f"{spread(seen.ignored)} of the labels are ignored: the loss of a batch without labels is no number",
                "all labels of a batch; in no batch of 3 refutes",
            )  # fmt: skip
            yield self._told(
                "logits-too-large", seen, stack, seen.is_half and seen.highest > _HUGE_LOGIT,
                f"the largest logit is {seen.highest:.3g}, the log of the sum of exponentials {spread(seen.logs)}",
                "over 100 in half precision; else refuted",
            )  # fmt: skip

    def _told(self, rule: str, seen: _Labels, stack: Stack, is_wrong: bool, what: str, threshold: str) -> Judgement:
        verdict: Verdict = "INCONCLUSIVE" if seen.looks < ENOUGH else "CONFIRMED" if is_wrong else "REFUTED"
        numbers = {
            "labels": _numbers(seen.counts),
            "ignored": seen.ignored,
            "highest": seen.highest,
            "logs": seen.logs,
        }
        return self.judgement(rule, stack, seen, verdict, what, threshold, numbers, "note")


def _is_contrastive(seen: _Labels, counts: list[int]) -> bool:
    """Whether each sample is compared with others, the first of which is its own."""
    return len(counts) < 2 or (counts[0] > 0 and len(counts) >= sum(counts) / max(seen.looks, 1) - 2)


def _numbers(counts: Tensor | None) -> Sequence[int]:
    return [] if counts is None else [int(count) for count in counts[:_CLASSES]]
