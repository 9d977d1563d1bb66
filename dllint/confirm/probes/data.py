"""DL401, DL402, DL403 and DL414: randomness that repeats in workers, and orders that repeat in epochs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from torch.utils.data import DistributedSampler

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


@dataclass(slots=True)
class _Epoch:
    """The batches of one pass, and whether gradients followed any of them."""

    order: list[Any]
    trains: bool = False


class Order(Probe):
    """DL414: compares the order of the epochs of a loader with a distributed sampler."""

    name = "order"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._orders: list[list[_Epoch]] = []  # of each loader
        self._by_loader: WeakKeyDictionary[Any, list[_Epoch]] = WeakKeyDictionary()
        self._latest: _Epoch | None = None

    def on_pass(self, batches: Batches) -> None:
        sampler = distributed_sampler(batches.loader) if batches.loader is not None else None
        if sampler is not None and sampler.shuffle:
            if batches.loader not in self._by_loader:
                self._orders.append(self._by_loader.setdefault(batches.loader, []))
            self._by_loader[batches.loader].append(_Epoch([]))

    def on_batch(self, batches: Batches, batch: Any) -> None:
        epochs = self._by_loader.get(batches.loader) if batches.loader is not None else None
        if epochs and batches.taken <= len(batches.indices):
            epochs[-1].order.append(batches.indices[batches.taken - 1])
            self._latest = epochs[-1]

    def before_backward(self, call: Any) -> None:
        if self._latest is not None:
            self._latest.trains = True
            self._latest = None

    def judge(self) -> Iterator[Judgement]:
        for epochs in self._orders:
            orders = [epoch.order for epoch in epochs if epoch.trains]  # else a batch was looked at, and no more
            common = min((len(order) for order in orders), default=0)
            distinct = len({repr(order[:common]) for order in orders})
            compared = len(orders) >= 2 and common
            yield Judgement(
                "DL414",
                self.name,
                "INCONCLUSIVE" if not compared else "CONFIRMED" if distinct < len(orders) else "REFUTED",
                f"{distinct} distinct orders in {len(orders)} epochs of {common} batches",
                "the same order in two epochs; all distinct in two or more refutes",
                {"epochs": len(orders), "distinct": distinct, "batches": common},
                len(orders),
                (0, self.run.steps),
                voice="alarm",
            )


def distributed_sampler(loader: Any) -> DistributedSampler[Any] | None:
    """The distributed sampler of a loader, which may be inside of others."""
    sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler  # which may have no length
    for _ in range(4):
        if sampler is None or isinstance(sampler, DistributedSampler):
            return sampler
        sampler = getattr(sampler, "sampler", None)
    return None
