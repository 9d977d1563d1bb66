"""DL414: the order of epochs with a distributed sampler."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DistributedSampler

from dllint.confirm.inside.feed import Source
from dllint.confirm.probes.base import Judgements, Probe, decided
from dllint.confirm.probes.events import Batches


class Order(Probe):
    """DL414: compares the order of the epochs of a loader with a distributed sampler."""

    def begin(self) -> None:
        self._sources: dict[Source, None] = {}  # with samplers that shuffle

    def on_pass(self, batches: Batches) -> None:
        sampler = distributed_sampler(batches.loader) if batches.loader is not None else None
        if sampler is not None and sampler.shuffle:
            self._sources.setdefault(batches.source)

    def judge(self) -> Judgements:
        for source in self._sources:
            orders = [each.order() for each in source.passes if each.trained]  # else a batch was looked at, and no more
            common = min((len(order) for order in orders), default=0)
            distinct = len({repr(order[:common]) for order in orders})
            is_compared = len(orders) >= 2 and common
            verdict = decided(is_compared and distinct < len(orders), is_compared)
            yield self.judgement("DL414", self.whole(looks=len(orders)), verdict, distinct=distinct, batches=common)


def distributed_sampler(loader: Any) -> DistributedSampler[Any] | None:
    """The distributed sampler of a loader, which may be inside of others."""
    sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler  # which may have no length
    for _ in range(4):
        if sampler is None or isinstance(sampler, DistributedSampler):
            return sampler
        sampler = getattr(sampler, "sampler", None)
    return None
