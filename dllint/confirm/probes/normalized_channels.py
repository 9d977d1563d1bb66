"""DL509: channels before and after `Normalize`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from dllint.confirm.evidence import Judgement, Stack, Voice
from dllint.confirm.inside.images import normalized
from dllint.confirm.inside.workers import read_notes
from dllint.confirm.probes.base import ENOUGH, Probe
from dllint.confirm.probes.channel_order import stack_at


class NormalizedChannels(Probe):
    """Reads what was noted about `Normalize`, here and in workers."""

    name = "normalized_channels"

    def judge(self) -> Iterator[Judgement]:
        records = self.run.settings.records
        notes = chain(read_notes(records), read_notes(records, "failure"))
        calls: dict[tuple[Stack, Stack], Counter[str]] = {}
        last: dict[tuple[Stack, Stack], tuple[int, int]] = {}
        for item in chain(normalized(), *(note.get("normalized", []) for note in notes if note["worker"] >= 0)):
            place = stack_at(item["made"]), stack_at(item["called"])
            calls.setdefault(place, Counter()).update({name: item[name] for name in ("calls", "changed", "refused")})
            is_wrong = item["changed"] or item["refused"]
            last[place] = (item["before"], item["after"]) if is_wrong or place not in last else last[place]
        for place, counts in calls.items():
            yield self._judged(place, counts, *last[place])

    def _judged(self, place: tuple[Stack, Stack], counts: Counter[str], before: int, after: int) -> Judgement:
        """DL509."""
        wrong = counts["changed"] + counts["refused"]
        if counts["refused"]:
            what = f"`Normalize` refused {counts['refused']} images: they have {before} channels, and it {after} means"
        elif wrong:
            what = f"`Normalize` made {after} channels of {before} in {wrong} of {counts['calls']} images"
        else:
            what = f"`Normalize` left the number of channels as it was in {counts['calls']} images"
        voice: Voice = "note"
        return Judgement(
            "DL509",
            self.name,
            "CONFIRMED" if wrong else "REFUTED" if counts["calls"] >= ENOUGH else "INCONCLUSIVE",
            what,
            "another number of channels after than before, or an error for it; none in 3 or more images refutes",
            {**counts, "before": before, "after": after},
            counts["calls"],
            (0, self.run.steps),
            tuple(stack for stack in place if stack),
            voice,
        )
