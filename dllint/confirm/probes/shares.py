"""DL404: whether the workers of a loader that iterates take the same samples: each should take a share of its own."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from dllint.confirm.inside.workers import read_notes
from dllint.confirm.probes.base import Judgements, Probe, decided


class Shares(Probe):
    def judge(self) -> Judgements:
        first: dict[tuple[str, int], list[Any]] = defaultdict(list)  # by dataset and pass, what workers began with
        passes: Counter[tuple[str, int]] = Counter()
        for note in read_notes(self.run.settings.records):
            if note.get("content") and note["worker"] >= 0:
                place = note["dataset"], note["worker"]
                first[note["dataset"], passes[place]].append(note)
                passes[place] += 1
        made = {source.dataset: source.made for source in self.run.feed.sources}
        for name in dict.fromkeys(name for name, _ in first):
            compared = [notes for (dataset, _), notes in first.items() if dataset == name and len(notes) > 1]
            if compared:
                is_changed = any(map(_is_drawn_without_labels, (note for notes in compared for note in notes)))
                repeated, seen = sum(map(_repeat, compared)), self.whole(made.get(name, ()), looks=len(compared))
                verdict = decided(repeated, not is_changed)
                yield self.judgement("DL404", seen, verdict, dataset=name, repeated=repeated)


def _repeat(notes: list[Any]) -> bool:
    """Whether two of the workers began with the same."""
    labels = [note["labels"] for note in notes if note["labels"]]
    return len({note["content"] for note in notes}) < len(notes) or len(set(labels)) < len(labels)


def _is_drawn_without_labels(note: Any) -> bool:
    """Whether samples were changed at random, and nothing tells which they are."""
    return not note["labels"] and any(before != after for before, after in note["states"].values())
