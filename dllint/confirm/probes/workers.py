"""What the workers of a loader draw and take: random states that are equal (DL401, DL402, DL403), and samples of data
that is iterated over, of which each worker should take a share of its own (DL404).

Compares the random states around the first batch of each pass, and what these batches are known by, as the workers have
written them down.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from dllint.confirm.inside.workers import read_notes
from dllint.confirm.probes.base import Judgements, Probe, Verdict, Voice, decided

_GLOBAL = ("random", "numpy", "torch")
Draws = dict[tuple[int, int], list[str]]  # the states around the first fetch, by worker (-1 for none) and epoch


class Workers(Probe):
    def judge(self) -> Judgements:
        passes: Counter[tuple[str, int]] = Counter()
        draws: dict[str, Draws] = defaultdict(dict)  # by generator
        begun: dict[str, dict[int, list[Any]]] = defaultdict(lambda: defaultdict(list))  # notes by dataset and pass
        training = {each.dataset for each in self.run.feed.sources if any(batches.trained for batches in each.passes)}
        for note in read_notes(self.run.settings.records):
            name, worker = note["dataset"], note["worker"]
            epoch = passes[name, worker]
            passes[name, worker] += 1
            if note.get("content") and worker >= 0:
                begun[name][epoch].append(note)
            for generator, (before, after) in note["states"].items() if name in training else ():
                if before != after and (worker >= 0 or generator in _GLOBAL):
                    draws[generator][worker, epoch] = [before, after]
        yield from self._drawn("DL401", {name: seen for name, seen in draws.items() if name not in _GLOBAL})
        yield from self._drawn("DL402", {name: seen for name, seen in draws.items() if name in _GLOBAL})
        yield from self._drawn("DL403", {"torch": draws.get("torch", {})}, "")  # of which DL402 speaks as well
        for name, by_pass in begun.items():
            yield from self._shared(name, [notes for notes in by_pass.values() if len(notes) > 1])

    def _drawn(self, rule: str, generators: dict[str, Draws], voice: Voice = "alarm") -> Judgements:
        verdicts = [(name, seen, *_repetition(seen)) for name, seen in generators.items() if seen]
        repeating = [item for item in verdicts if item[2] == "CONFIRMED"]
        for name, seen, verdict, how in repeating or verdicts:
            told = f"`{name}` was drawn from in {len({worker for worker, _ in seen})} workers: {how}"
            states = {f"worker {worker}, epoch {epoch}": state for (worker, epoch), state in sorted(seen.items())}
            yield self.judgement(rule, self.whole(looks=len(seen)), verdict, told, voice, generator=name, draws=states)

    def _shared(self, name: str, compared: list[list[Any]]) -> Judgements:
        if compared:
            made = {source.dataset: source.made for source in self.run.feed.sources}
            unlabeled = [note for notes in compared for note in notes if not note["labels"]]
            # samples were changed at random, and nothing tells which they are
            is_changed = any(before != after for note in unlabeled for before, after in note["states"].values())
            repeated, seen = sum(map(_repeat, compared)), self.whole(made.get(name, ()), looks=len(compared))
            yield self.judgement("DL404", seen, decided(repeated, not is_changed), dataset=name, repeated=repeated)


def _repetition(draws: Draws) -> tuple[Verdict, str]:
    """Whether the same state was met twice, before or after drawing."""
    if len(draws) < 2:
        return "INCONCLUSIVE", "too few to compare"
    for moment in (0, 1):
        met: dict[str, tuple[int, int]] = {}
        for (worker, epoch), states in sorted(draws.items()):
            if states[moment] in met:
                other, earlier = met[states[moment]]
                return "CONFIRMED", f"worker {worker} in epoch {epoch} drew what worker {other} drew in epoch {earlier}"
            met[states[moment]] = (worker, epoch)
    return "REFUTED", f"{len(draws)} distinct states"


def _repeat(notes: list[Any]) -> bool:
    """Whether two of the workers began with the same."""
    labels = [note["labels"] for note in notes if note["labels"]]
    return len({note["content"] for note in notes}) < len(notes) or len(set(labels)) < len(labels)
