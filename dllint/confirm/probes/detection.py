"""DL512 and DL513: the boxes that detectors are trained with, and the score below which they find nothing.

Boxes are taken to be two corners in pixels, as the detectors of torchvision do, whose interface (a list of images and a
list of dictionaries with `boxes` and `labels`) the models have that are looked at. Other detectors with this interface
may read boxes otherwise, so that what is said of them is a note.
"""

from __future__ import annotations

from typing import Any

import torch

from dllint.confirm.inside.parts import unwrapped
from dllint.confirm.probes.base import Judgements, PlaceProbe, Samples, Tensor, alarm_if, decided, events, stack_of

_INVALID = 0.05  # share of the boxes whose second corner is not beyond the first
_UNIT, _SIDE = 1.5, 32  # the largest coordinate of boxes that are parts of an image, and the side of an image
_HIGH = 0.3  # a score below which an evaluation loses what it counts
_FEWEST = 8  # boxes


class _Boxes(Samples):
    """The boxes that a model was given at one place; or its evaluations there, with the score below which it drops."""

    is_known: bool = False  # the model is one of torchvision's
    boxes: int = 0
    invalid: int = 0
    highest: float = 0.0
    lowest: float = 1.0  # score


class Detection(PlaceProbe[_Boxes]):
    at_first = 5

    def on_model_forward(self, event: events.ModelForward) -> None:
        images, targets = event.arguments.get(0, "images"), event.arguments.get(1, "targets")
        if event.grad == "on":
            if _are_targets(targets) and isinstance(images, (list, tuple, Tensor)):
                self._look(event, images, targets)
        elif self.run.steps and not event.model.training:
            seen, inner = self.sample("DL513", stack_of(event)), unwrapped(event.model)
            found = [getattr(part, "score_thresh", None) for part in (getattr(inner, "roi_heads", None), inner)]
            known = [float(value) for value in found if isinstance(value, (int, float))]
            if seen is not None and known:
                seen.count()
                seen.lowest = min(seen.lowest, known[0])

    def _look(self, event: events.ModelForward, images: Any, targets: Any) -> None:
        seen = self.sample("DL512", stack_of(event))
        boxes = torch.cat([target["boxes"].detach().reshape(-1, 4) for target in targets])
        if seen is None or not len(boxes):
            return
        modules = (kind.__module__ for kind in type(unwrapped(event.model)).__mro__)
        seen.is_known = any(name.startswith("torchvision.models.detection") for name in modules)
        numbers = torch.stack([(boxes[:, 2:] <= boxes[:, :2]).any(1).sum(), boxes.max().float()]).tolist()
        side = min(min(image.shape[-2:]) for image in images)
        is_unit = numbers[1] <= _UNIT and side > _SIDE
        seen.count(is_unit or numbers[0] > _INVALID * len(boxes))
        seen.boxes += len(boxes)
        seen.invalid += int(numbers[0])
        seen.highest = max(seen.highest, numbers[1])

    def judge_each(self, seen: _Boxes) -> Judgements:
        if seen.rule == "DL513":
            if seen.looks:
                yield self.judgement("DL513", seen, decided(seen.lowest >= _HIGH, True))
            return
        verdict = seen.unanimous if seen.boxes >= _FEWEST else "INCONCLUSIVE"
        if seen.wrong and self.run.ended_by == "exception":  # as such boxes end it
            verdict = "CONFIRMED"
        yield self.judgement("DL512", seen, verdict, "", alarm_if(seen.is_known))


def _are_targets(value: Any) -> bool:
    """Whether an argument is what detectors of torchvision take for targets."""
    if not isinstance(value, (list, tuple)) or not value:
        return False
    return all(isinstance(item, dict) and isinstance(item.get("boxes"), Tensor) and "labels" in item for item in value)
