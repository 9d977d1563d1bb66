"""Labels by class, and the largest logits."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from dllint.confirm.pictures import Histogram
from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, decided
from dllint.confirm.probes.events import LossCall, stack_of
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
        seen.count()
        seen.ignored.append(ignored)
        seen.logs.append(log)
        seen.highest = max(seen.highest, highest)
        seen.is_half = scores.dtype in _HALF
        self.run.trace("log of the sum of exponentials", log)

    def judge(self) -> Judgements:
        for number, seen in enumerate(self.noted(), 1):
            counts = [] if seen.counts is None else [int(count) for count in seen.counts]
            if 1 < len(counts) <= _CLASSES:
                name = f"labels by class ({named_place(seen.stacks[0], number)})"
                self.run.record.pictures.histograms[name] = Histogram(0.0, float(len(counts)), counts)
            met, labels = sum(count > 0 for count in counts), sum(counts)
            facts = {
                "labels-constant": met == 1 and labels >= _ELEMENTS and not _is_contrastive(seen, counts),
                "labels-ignored": any(share == 1 for share in seen.ignored),
                "logits-too-large": seen.is_half and seen.highest > _HUGE_LOGIT,
            }
            for rule, is_wrong in facts.items():
                is_enough, found = seen.looks >= ENOUGH, {"met": met, "classes": len(counts), "labels": labels}
                yield self.judgement(rule, seen, decided(is_enough and is_wrong, is_enough), **found)


def _is_contrastive(seen: _Labels, counts: list[int]) -> bool:
    """Whether each sample is compared with others, the first of which is its own."""
    return len(counts) < 2 or (counts[0] > 0 and len(counts) >= sum(counts) / max(seen.looks, 1) - 2)
