"""DL415: whether loaders shuffle, and repeat themselves."""

from __future__ import annotations

from typing import Any

from torch.utils.data import IterableDataset, RandomSampler

from dllint.confirm.inside.feed import Source
from dllint.confirm.pictures import Order
from dllint.confirm.probes.base import Judgements, Probe, alarm_if, decided
from dllint.confirm.probes.events import Batches
from dllint.confirm.probes.order import distributed_sampler

_FEWEST = 3  # batches of a pass that can be compared
_SHOWN = 64  # samples of a pass that the report draws
_MOST = 20  # passes of a loader


class Passes(Probe):
    """Compares the passes over each loader that gradients follow."""

    def begin(self) -> None:
        self._shuffles: dict[Source, bool] = {}  # loaders over samples with numbers, but for distributed ones

    def on_pass(self, batches: Batches) -> None:
        loader = batches.loader
        if loader is not None and batches.source not in self._shuffles and not batches.number:
            is_known = not isinstance(loader.dataset, IterableDataset)
            if is_known and distributed_sampler(loader) is None:  # which has a rule of its own
                sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)
                self._shuffles[batches.source] = isinstance(sampler, RandomSampler)

    def judge(self) -> Judgements:
        for source in self._shuffles:
            passes = [each for each in source.passes[:_MOST] if each.only_trained]
            for each in passes:
                first = [index for batch in each.order() for index in batch][:_SHOWN]
                if all(isinstance(index, int) for index in first):
                    self.run.record.pictures.orders.append(Order(source.dataset, each.number, first))
            orders = [each.order() for each in passes]
            yield from self._unshuffled(source, [order for order in orders if len(order) >= _FEWEST])
            yield from self._repeated(source, orders)

    def _unshuffled(self, source: Source, long: list[list[Any]]) -> Judgements:
        in_order, seen = sum(_is_sequential(order) for order in long), self.whole(source.made, looks=len(long))
        if long:
            verdict = decided(in_order == len(long), not in_order)
            yield self.judgement("DL415", seen, verdict, in_order=in_order, dataset=source.dataset)

    def _repeated(self, source: Source, orders: list[list[Any]]) -> Judgements:
        """Passes that are in no natural order, and all the same."""
        common = min((len(order) for order in orders), default=0)
        starts = [order[:common] for order in orders]
        if len(orders) >= 2 and common >= _FEWEST and not any(map(_is_sequential, starts)):
            distinct, seen = len({repr(start) for start in starts}), self.whole(source.made, looks=len(orders))
            found = {"distinct": distinct, "batches": common, "dataset": source.dataset}
            verdict, voice = decided(distinct < len(orders), True), alarm_if(self._shuffles[source])
            yield self.judgement("same-order-every-epoch", seen, verdict, "", voice, **found)


def _is_sequential(order: list[list[Any]]) -> bool:
    flat = [index for batch in order for index in batch]
    return flat == list(range(len(flat)))
