"""The channels of images: their order in samples, beside that of the images that OpenCV reads for them (DL505), and
their number before and after `Normalize` (DL509). Reads what was noted of them, in this process and in workers."""

from __future__ import annotations

from collections import Counter

import torch

from dllint.confirm.evidence import Line
from dllint.confirm.inside.images import normalized
from dllint.confirm.inside.workers import read_notes
from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, Voice, decided

_FEWEST = 16  # samples whose means say the order
_CLEAR = 0.7  # correlation of the differences of their channels
_STEEP = 0.3  # how much of the differences of the images are left in the samples


class _Images(Samples):
    """The samples that were made of images which OpenCV read at one place; or what a `Normalize` was given at one
    place, of which wrong are images of which it made or refused other channels."""

    kinds: Counter[str] = Counter()
    means: list[list[float]] = []
    as_red: int = 0
    refused: int = 0
    before: int = 0  # channels of one that is wrong, else of the first
    after: int = 0


class ImageChannels(PlaceProbe[_Images]):
    def judge(self) -> Judgements:
        notes = read_notes(self.run.settings.records)
        for order in (order for note in notes for order in note.get("orders", [])):
            seen = self.at("DL505", tuple(Line(*each) for each in order["place"]))
            seen.count()
            seen.kinds[order["kind"]] += 1
            seen.means.append(order["means"])
            seen.as_red += order["as_red"]
        of_workers = [note for note in notes + read_notes(self.run.settings.records, "failure") if note["worker"] >= 0]
        for item in normalized() + [item for note in of_workers for item in note.get("normalized", [])]:
            made, called = (tuple(Line(*each) for each in item[key]) for key in ("made", "called"))
            seen = self.at("DL509", made, called)
            if item["changed"] or item["refused"] or not seen.looks:
                seen.before, seen.after = item["before"], item["after"]
            seen.looks += item["calls"]
            seen.wrong += item["changed"] + item["refused"]
            seen.refused += item["refused"]
        yield from super().judge()

    def judge_each(self, seen: _Images) -> Judgements:
        seen.first = 0
        if seen.rule == "DL505":
            yield from self._order(seen)
            return
        told = f"made {seen.after} channels of {seen.before} in {seen.wrong} of {seen.looks} images"
        if seen.refused:
            told = f"refused {seen.refused} images: they have {seen.before} channels, and it {seen.after} means"
        yield self.judgement("DL509", seen, decided(seen.wrong, seen.looks >= ENOUGH), told)

    def _order(self, seen: _Images) -> Judgements:
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
        voice: Voice = "note" if seen.as_red else ""
        yield self.judgement("DL505", seen, verdict, told[verdict], voice, **seen.kinds, correlation=related)


def _related(means: list[list[float]]) -> float:
    """The correlation of the differences of the channels of samples with those of their images; 0 where it cannot be
    told, or where samples have lost their colors."""
    if len(means) < _FEWEST:
        return 0.0
    table = torch.tensor(means).double().T
    related, spread = torch.corrcoef(table)[0, 1].nan_to_num(), table.std(1)
    return float(related) if float(related.abs() * spread[0]) > _STEEP * float(spread[1]) else 0.0
