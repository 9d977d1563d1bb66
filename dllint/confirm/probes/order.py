"""DL414: the order of epochs with a distributed sampler."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from torch.utils.data import DistributedSampler

from dllint.confirm.evidence import Judgement
from dllint.confirm.probes.base import Batches, Probe


@dataclass(slots=True)
class _Epoch:
    """One pass over a loader, and whether gradients followed any of its batches."""

    indices: list[Any]
    taken: int = 0
    trains: bool = False

    def order(self) -> list[Any]:
        """The samples of each batch that was taken."""
        return self.indices[: self.taken]


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
            self._by_loader[batches.loader].append(_Epoch(batches.indices))

    def on_batch(self, batches: Batches, batch: Any) -> None:
        epochs = self._by_loader.get(batches.loader) if batches.loader is not None else None
        if epochs:
            epochs[-1].taken = batches.taken
            self._latest = epochs[-1]

    def before_backward(self, call: Any) -> None:
        if self._latest is not None:
            self._latest.trains = True
            self._latest = None

    def judge(self) -> Iterator[Judgement]:
        for epochs in self._orders:
            orders = [epoch.order() for epoch in epochs if epoch.trains]  # else a batch was looked at, and no more
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
