"""DL401, DL402, DL403: random states of workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from dllint.confirm.evidence import Judgement, Verdict, Voice
from dllint.confirm.inside.workers import key_of, read_notes
from dllint.confirm.probes.base import Batches, Probe

_GLOBAL = ("random", "numpy", "torch")
_MAIN = -1  # the number of no worker
Draws = dict[tuple[int, int], list[str]]  # the states around the first fetch, by worker and epoch


class Randomness(Probe):
    """DL401, DL402 and DL403: compares the random states that workers wrote down."""

    name = "randomness"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._latest: Batches | None = None
        self._training: set[str] = set()

    def on_batch(self, batches: Batches, batch: Any) -> None:
        self._latest = batches

    def before_backward(self, call: Any) -> None:
        loader = self._latest.loader if self._latest is not None else None
        if loader is not None:
            self._training.add(key_of(loader.dataset))
        self._latest = None

    def judge(self) -> Iterator[Judgement]:
        draws: dict[str, Draws] = defaultdict(dict)
        epochs: dict[tuple[str, int], int] = defaultdict(int)
        for note in read_notes(self.run.settings.records):
            key, worker = note["dataset"], note["worker"]
            if key not in self._training:
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

    def _judgements(
        self, rule: str, generators: list[tuple[str, Draws]], voice: Voice = "alarm"
    ) -> Iterator[Judgement]:
        verdicts = [(name, seen, *_repetition(seen)) for name, seen in generators if seen]
        repeating = [item for item in verdicts if item[2] == "CONFIRMED"]
        for name, seen, verdict, how in repeating or verdicts:
            yield Judgement(
                rule,
                self.name,
                verdict,
                f"`{name}` was drawn from in {len({worker for worker, _ in seen})} workers: {how}",
                "equal states in two workers or two epochs; all distinct in two or more refutes",
                {"generator": name, "draws": {f"worker {w}, epoch {e}": s for (w, e), s in sorted(seen.items())}},
                len(seen),
                (0, self.run.steps),
                voice=voice,
            )


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
