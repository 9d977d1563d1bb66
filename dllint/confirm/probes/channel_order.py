"""DL505: the channels of samples, and of the images that OpenCV reads for them. Reads what was noted about the channels
of samples."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch

from dllint.confirm.evidence import Line
from dllint.confirm.inside.workers import read_notes
from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, decided
from dllint.confirm.probes.events import Stack

_FEWEST = 16  # samples whose means say the order
_CLEAR = 0.7  # correlation of the differences of their channels
_STEEP = 0.3  # how much of the differences of the images are left in the samples


@dataclass(slots=True, eq=False)
class _Read(Samples):
    """The samples that were made of images which OpenCV read at one place."""

    kinds: Counter[str] = field(default_factory=Counter)
    means: list[list[float]] = field(default_factory=list)
    as_red: int = 0


class ChannelOrder(PlaceProbe[_Read]):
    def judge(self) -> Judgements:
        for note in read_notes(self.run.settings.records):
            for order in note.get("orders", []):
                seen = self.at(stack_at(order["place"]))
                seen.count()
                seen.kinds[order["kind"]] += 1
                seen.means.append(order["means"])
                seen.as_red += order["as_red"]
        yield from super().judge()

    def judge_each(self, seen: _Read) -> Judgements:
        blue, red = seen.kinds["blue"], seen.kinds["red"]
        related = _related(seen.means)
        is_blue, is_red = blue >= ENOUGH, red >= ENOUGH
        if blue + red < ENOUGH:
            is_blue, is_red = related > _CLEAR, -related > _CLEAR
        verdict = decided(is_blue and not red, is_red and not blue)
        told = {
            "CONFIRMED": "blue is the first channel, as OpenCV reads it",
            "REFUTED": "red is the first channel",
            "INCONCLUSIVE": f"their order cannot be told: {seen.kinds['gray']} are gray, {seen.kinds['apart']} are "
            f"turned or cropped, and of the rest {blue} have blue first",
        }
        if seen.as_red:
            told["CONFIRMED"] += "; they are normalized with the numbers of ImageNet, which are for red first"
        seen.first, found = 0, {**seen.kinds, "correlation": related}
        yield self.judgement("DL505", seen, verdict, told[verdict], "note" if seen.as_red else "", **found)


def _related(means: list[list[float]]) -> float:
    """The correlation of the differences of the channels of samples with those of their images; 0 where it cannot be
    told, or where samples have lost their colors."""
    if len(means) < _FEWEST:
        return 0.0
    table = torch.tensor(means).double().T
    related, spread = torch.corrcoef(table)[0, 1].nan_to_num(), table.std(1)
    return float(related) if float(related.abs() * spread[0]) > _STEEP * float(spread[1]) else 0.0


def stack_at(place: list[list[Any]]) -> Stack:
    return tuple(Line(path, line, function) for path, line, function in place)
