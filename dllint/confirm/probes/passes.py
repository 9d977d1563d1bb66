"""Whether loaders shuffle (DL415), and repeat themselves, those with a distributed sampler (DL414) and others."""

from __future__ import annotations

from typing import Any

from torch.utils.data import DistributedSampler, IterableDataset, RandomSampler

from dllint.confirm.inside.feed import Source, samplers_of
from dllint.confirm.pictures import Order
from dllint.confirm.probes.base import Judgements, Probe, alarm_if, decided
from dllint.confirm.probes.events import Batches

_FEWEST = 3  # batches of a pass that can be compared
_SHOWN = 64  # samples of a pass that the report draws
_MOST = 20  # passes of a loader


class Passes(Probe):
    def begin(self) -> None:
        self._distributed: dict[Source, None] = {}  # loaders with distributed samplers that shuffle
        self._shuffles: dict[Source, bool] = {}  # others over samples with numbers

    def on_pass(self, batches: Batches) -> None:
        loader, source = batches.loader, batches.source
        samplers = samplers_of(loader) if loader is not None else ()
        sampler = next((each for each in samplers if isinstance(each, DistributedSampler)), None)
        if sampler is not None and sampler.shuffle:
            self._distributed.setdefault(source)
        is_first = loader is not None and not batches.number
        if is_first and sampler is None and not isinstance(loader.dataset, IterableDataset):
            plain = getattr(loader.batch_sampler, "sampler", loader.sampler)
            self._shuffles[source] = isinstance(plain, RandomSampler)

    def judge(self) -> Judgements:
        for source in self._distributed:
            orders = [each.order() for each in source.passes if each.trained]  # else a batch was looked at, and no more
            common, distinct = _compared(orders)
            is_compared = len(orders) >= 2 and common
            verdict = decided(is_compared and distinct < len(orders), is_compared)
            yield self.judgement("DL414", self.whole(looks=len(orders)), verdict, distinct=distinct, batches=common)
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
        in_order, seen = sum(map(_is_sequential, long)), self.whole(source.made, looks=len(long))
        if long:
            verdict = decided(in_order == len(long), not in_order)
            yield self.judgement("DL415", seen, verdict, in_order=in_order, dataset=source.dataset)

    def _repeated(self, source: Source, orders: list[list[Any]]) -> Judgements:
        """Passes that are in no natural order, and all the same."""
        common, distinct = _compared(orders)
        if len(orders) >= 2 and common >= _FEWEST and not any(_is_sequential(order[:common]) for order in orders):
            seen, verdict = self.whole(source.made, looks=len(orders)), decided(distinct < len(orders), True)
            found = {"distinct": distinct, "batches": common, "dataset": source.dataset}
            voice = alarm_if(self._shuffles[source])
            yield self.judgement("same-order-every-epoch", seen, verdict, "", voice, **found)


def _compared(orders: list[list[Any]]) -> tuple[int, int]:
    """How many batches all passes have, and how many distinct orders of these there are."""
    common = min(map(len, orders), default=0)
    return common, len({repr(order[:common]) for order in orders})


def _is_sequential(order: list[list[Any]]) -> bool:
    flat = [index for batch in order for index in batch]
    return flat == list(range(len(flat)))
