"""DL404: whether the workers of a loader that iterates take the same samples."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from torch.utils.data import IterableDataset

from dllint.confirm.inside.workers import read_notes
from dllint.confirm.probes.base import Judgements, Probe, decided
from dllint.confirm.probes.events import Batches, Stack


@dataclass(frozen=True, slots=True)
class _First:
    """What the first batch of a worker is known by, and whether random numbers were drawn for it."""

    content: str
    labels: str
    draws: bool


def _repeat(batches: list[_First]) -> bool:
    labels = [begin.labels for begin in batches if begin.labels]
    return len({begin.content for begin in batches}) < len(batches) or len(set(labels)) < len(labels)


class Shares(Probe):
    def begin(self) -> None:
        self._made: dict[str, Stack] = {}  # by dataset, where a loader over it was made

    def on_pass(self, batches: Batches) -> None:
        loader = batches.loader
        if loader is not None and isinstance(loader.dataset, IterableDataset):
            self._made[batches.source.dataset] = batches.made

    def judge(self) -> Judgements:
        first: dict[tuple[str, int], dict[int, _First]] = {}  # by dataset and pass, of each worker
        passes: Counter[tuple[str, int]] = Counter()
        for note in read_notes(self.run.settings.records):
            place = note["dataset"], note["worker"]
            if note.get("content") and note["worker"] >= 0:
                begin = _First(note["content"], note.get("labels", ""), any(a != b for a, b in note["states"].values()))
                first.setdefault((note["dataset"], passes[place]), {})[note["worker"]] = begin
                passes[place] += 1
        by_dataset: dict[str, list[list[_First]]] = {}
        for (name, _), batches in first.items():
            if len(batches) > 1:
                by_dataset.setdefault(name, []).append(list(batches.values()))
        for name, seen in by_dataset.items():
            repeated = sum(_repeat(batches) for batches in seen)
            is_changed = any(begin.draws and not begin.labels for batches in seen for begin in batches)
            passes_seen = self.whole(self._made.get(name, ()), looks=len(seen))
            verdict = decided(repeated, not is_changed)
            yield self.judgement("DL404", passes_seen, verdict, dataset=name, repeated=repeated)
