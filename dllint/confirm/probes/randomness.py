"""DL401, DL402 and DL403: compares the random states that workers wrote down."""

from __future__ import annotations

from collections import defaultdict

from dllint.confirm.evidence import Verdict, Voice
from dllint.confirm.inside.workers import read_notes
from dllint.confirm.probes.base import Judgements, Probe

_GLOBAL = ("random", "numpy", "torch")
_MAIN = -1  # the number of no worker
Draws = dict[tuple[int, int], list[str]]  # the states around the first fetch, by worker and epoch


class Randomness(Probe):
    def judge(self) -> Judgements:
        training = {each.dataset for each in self.run.feed.sources if any(batches.trained for batches in each.passes)}
        draws: dict[str, Draws] = defaultdict(dict)
        epochs: dict[tuple[str, int], int] = defaultdict(int)
        for note in read_notes(self.run.settings.records):
            key, worker = note["dataset"], note["worker"]
            if key not in training:
                continue
            epoch = epochs[key, worker]
            epochs[key, worker] += 1
            for name, (before, after) in note["states"].items():
                if before != after:
                    draws[name][worker, epoch] = [before, after]
        held = [(name, seen) for name, seen in draws.items() if name not in _GLOBAL]
        yield from self._judgements("DL401", [(name, _of_workers(seen)) for name, seen in held])
        yield from self._judgements("DL402", [(name, seen) for name, seen in draws.items() if name in _GLOBAL])
        yield from self._judgements("DL403", [("torch", draws.get("torch", {}))], "")  # of which DL402 speaks as well

    def _judgements(self, rule: str, generators: list[tuple[str, Draws]], voice: Voice = "alarm") -> Judgements:
        verdicts = [(name, seen, *_repetition(seen)) for name, seen in generators if seen]
        repeating = [item for item in verdicts if item[2] == "CONFIRMED"]
        for name, seen, verdict, how in repeating or verdicts:
            told = f"`{name}` was drawn from in {len({worker for worker, _ in seen})} workers: {how}"
            states = {f"worker {worker}, epoch {epoch}": state for (worker, epoch), state in sorted(seen.items())}
            looks = self.whole(looks=len(seen))
            yield self.judgement(rule, looks, verdict, told, voice, generator=name, draws=states)


def _of_workers(draws: Draws) -> Draws:
    return {place: states for place, states in draws.items() if place[0] != _MAIN}


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
