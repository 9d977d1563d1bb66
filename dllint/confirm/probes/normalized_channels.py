"""DL509: channels before and after `Normalize`."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from dllint.confirm.inside.images import normalized
from dllint.confirm.inside.workers import read_notes
from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, decided
from dllint.confirm.probes.channel_order import stack_at


@dataclass(slots=True, eq=False)
class _Images(Samples):
    """What a `Normalize` was given at one place; wrong are images of which it made or refused other channels."""

    refused: int = 0
    before: int = 0  # channels of one that is wrong, else of the first
    after: int = 0


class NormalizedChannels(PlaceProbe[_Images]):
    def judge(self) -> Judgements:
        records = self.run.settings.records
        notes = chain(read_notes(records), read_notes(records, "failure"))
        for item in chain(normalized(), *(note.get("normalized", []) for note in notes if note["worker"] >= 0)):
            seen = self.at(stack_at(item["made"]), stack_at(item["called"]))
            is_wrong = item["changed"] or item["refused"]
            if is_wrong or not seen.looks:
                seen.before, seen.after = item["before"], item["after"]
            seen.looks += item["calls"]
            seen.wrong += item["changed"] + item["refused"]
            seen.refused += item["refused"]
        yield from super().judge()

    def judge_each(self, seen: _Images) -> Judgements:
        seen.first = 0
        told = f"left the number of channels as it was in {seen.looks} images"
        if seen.refused:
            told = f"refused {seen.refused} images: they have {seen.before} channels, and it {seen.after} means"
        elif seen.wrong:
            told = f"made {seen.after} channels of {seen.before} in {seen.wrong} of {seen.looks} images"
        yield self.judgement("DL509", seen, decided(seen.wrong, seen.looks >= ENOUGH), f"`Normalize` {told}")
