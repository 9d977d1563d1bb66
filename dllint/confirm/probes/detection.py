"""DL512 and DL513: the boxes that detectors are trained with, and the score below which they find nothing.

Boxes are taken to be two corners in pixels, as the detectors of torchvision do, whose interface (a list of images and a
list of dictionaries with `boxes` and `labels`) the models have that are looked at. Other detectors with this interface
may read boxes otherwise, so that what is said of them is a note.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dllint.confirm.probes.base import Judgements, PlaceProbe, Samples, alarm_if, decided
from dllint.confirm.probes.events import ModelForward, Stack, stack_of

_INVALID = 0.05  # share of the boxes whose second corner is not beyond the first
_UNIT, _SIDE = 1.5, 32  # the largest coordinate of boxes that are parts of an image, and the side of an image
_HIGH = 0.3  # a score below which an evaluation loses what it counts
_FEWEST = 8  # boxes


@dataclass(slots=True, eq=False)
class _Boxes(Samples):
    """The boxes that a model was given at one place."""

    is_known: bool = False  # the model is one of torchvision's
    boxes: int = 0
    invalid: int = 0
    highest: float = 0.0


class Detection(PlaceProbe[_Boxes]):
    at_first = 5

    def begin(self) -> None:
        self._thresholds: dict[Stack, list[float]] = {}

    def on_model_forward(self, event: ModelForward) -> None:
        inputs, named, stack = event.arguments.positional, event.arguments.keywords, stack_of(event)
        if event.grad == "on":
            targets = named.get("targets", inputs[1] if len(inputs) > 1 else None)
            images = named.get("images", inputs[0] if inputs else None)
            if _are_targets(targets) and isinstance(images, (list, tuple, Tensor)):
                self._look(event.model, images, targets, stack)
        elif self.run.steps and not event.model.training:
            threshold = _threshold(event.model) if self.is_next_sampled(stack, self.at_first) else None
            if threshold is not None:
                self._thresholds.setdefault(stack, []).append(threshold)

    def _look(self, module: nn.Module, images: Any, targets: Any, stack: Stack) -> None:
        seen = self.sample(stack)
        boxes = torch.cat([target["boxes"].detach().reshape(-1, 4) for target in targets])
        if seen is None or not len(boxes):
            return
        seen.is_known = _is_of_torchvision(module)
        numbers = torch.stack([(boxes[:, 2:] <= boxes[:, :2]).any(1).sum(), boxes.max().float()]).tolist()
        side = min(min(image.shape[-2:]) for image in images)
        is_unit = numbers[1] <= _UNIT and side > _SIDE
        seen.count(is_unit or numbers[0] > _INVALID * len(boxes))
        seen.boxes += len(boxes)
        seen.invalid += int(numbers[0])
        seen.highest = max(seen.highest, numbers[1])

    def judge(self) -> Judgements:
        yield from super().judge()
        for stack, thresholds in self._thresholds.items():
            lowest, seen = min(thresholds), self.whole(stack, looks=len(thresholds))
            yield self.judgement("DL513", seen, decided(lowest >= _HIGH, True), lowest=lowest)

    def judge_each(self, seen: _Boxes) -> Judgements:
        verdict = seen.unanimous if seen.boxes >= _FEWEST else "INCONCLUSIVE"
        if seen.wrong and self.run.ended_by == "exception":  # as such boxes end it
            verdict = "CONFIRMED"
        yield self.judgement("DL512", seen, verdict, "", alarm_if(seen.is_known))


def _are_targets(value: Any) -> bool:
    """Whether an argument is what detectors of torchvision take for targets."""
    if not isinstance(value, (list, tuple)) or not value:
        return False
    return all(isinstance(item, dict) and isinstance(item.get("boxes"), Tensor) and "labels" in item for item in value)


def _is_of_torchvision(module: nn.Module) -> bool:
    inner = getattr(module, "module", module)
    return any(kind.__module__.startswith("torchvision.models.detection") for kind in type(inner).__mro__)


def _threshold(module: nn.Module) -> float | None:
    """The score below which a detector drops boxes; None for what is no detector."""
    inner = getattr(module, "module", module)
    for part in (getattr(inner, "roi_heads", None), inner):
        value = getattr(part, "score_thresh", None)
        if isinstance(value, (int, float)):
            return float(value)
    return None
