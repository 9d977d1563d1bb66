"""The passes over loaders: whether they shuffle (DL415) and repeat themselves, those with a distributed sampler (DL414)
and others, and whether evaluation is given the same data in each (DL508), of the same scale as training (DL507).

Evaluation is a pass in which a model is called without gradients, and nothing is trained. Its first batches are
compared with those of the pass before, and its images with those of training.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from torch.utils.data import DistributedSampler, IterableDataset, RandomSampler

from dllint.confirm.evidence import Order
from dllint.confirm.inside.loaders import Source, samplers_of
from dllint.confirm.inside.parts import some, tensors
from dllint.confirm.probes.base import Judgements, Notes, Probe, Tensor, alarm_if, decided, events

_FEWEST = 3  # batches of a pass that can be compared
_SHOWN = 64  # samples of a pass that the report draws
_MOST = 20  # passes of a loader
_PASSES, _BATCHES = 4, 8  # of each loader, and of each pass, whose batches are looked at
_CHANNELS = 4  # of an image, at most
_VALUES = 4096  # of the first batch that are kept
_IMAGES = 64  # of each kind, from which they can be compared
_SHIFT, _NO_SHIFT = 0.3, 0.15  # of the mean, in deviations
_RATIOS, _SAME_RATIOS = (0.7, 1.4), (0.85, 1.18)  # of the deviations


class _Pass(Notes):
    """One pass over a loader: its first batch, and sums over the channels of its images."""

    batches: events.Batches
    values: Tensor = torch.zeros(0)  # where they are known
    sums: list[tuple[int, Tensor]] = []  # of each batch: images; means, means of squares

    @property
    def evaluates(self) -> bool:
        """Whether it is one of evaluation."""
        return self.batches.is_evaluated and not self.batches.trained


class Passes(Probe):
    _distributed: dict[Source, None] = {}  # loaders with distributed samplers that shuffle
    _shuffles: dict[Source, bool] = {}  # others over samples with numbers
    _passes: dict[events.Batches, _Pass] = {}

    def on_pass(self, batches: events.Batches) -> None:
        loader, source = batches.loader, batches.source
        samplers = samplers_of(loader) if loader is not None else ()
        sampler = next((each for each in samplers if isinstance(each, DistributedSampler)), None)
        if sampler is not None and sampler.shuffle:
            self._distributed.setdefault(source)
        is_first = loader is not None and not batches.number
        if is_first and sampler is None and not isinstance(loader.dataset, IterableDataset):
            self._shuffles[source] = isinstance(getattr(loader.batch_sampler, "sampler", loader.sampler), RandomSampler)

    def on_batch(self, batches: events.Batches, batch: Any) -> None:
        if batches.loader is None or batches.number >= _PASSES or batches.taken > _BATCHES:
            return
        seen = self._passes.setdefault(batches, _Pass(batches))
        floating = (part for part in tensors(batch, 2) if part.is_floating_point() and part.numel())
        tensor = next(floating, torch.empty(0)).detach()
        if batches.taken == 1 and batches.indices and tensor.numel():
            seen.values = some(tensor, _VALUES).clone()
        if tensor.dim() == 4 and tensor.shape[1] <= _CHANNELS:
            values = tensor.float()
            seen.sums.append((len(values), torch.stack([values.mean((0, 2, 3)), values.square().mean((0, 2, 3))])))

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
            yield from self._ordered(source, [each.order() for each in passes])
        for source in self.run.feed.sources:
            passes_of = [self._passes[batches] for batches in source.passes if batches in self._passes]
            evaluating = [each for each in passes_of if each.evaluates]
            comparable = [  # which began with the same samples
                (a, b)
                for a, b in pairwise(evaluating)
                if a.values.shape == b.values.shape
                and a.values.numel()
                and a.batches.indices[0] == b.batches.indices[0]
            ]
            if evaluating:
                different = sum(not torch.equal(a.values, b.values) for a, b in comparable)
                found = {"different": different, "compared": len(comparable)}
                yield self.judgement("DL508", self.whole(), decided(different, comparable), **found)
        yield from self._scales()

    def _ordered(self, source: Source, orders: list[list[Any]]) -> Judgements:
        """DL415, and passes that are in no natural order, and all the same."""
        long = [order for order in orders if len(order) >= _FEWEST]
        if long:
            in_order, seen = sum(map(_is_sequential, long)), self.whole(source.made, looks=len(long))
            verdict = decided(in_order == len(long), not in_order)
            yield self.judgement("DL415", seen, verdict, in_order=in_order, dataset=source.dataset)
        common, distinct = _compared(orders)
        if len(orders) >= 2 and common >= _FEWEST and not any(_is_sequential(order[:common]) for order in orders):
            seen, verdict = self.whole(source.made, looks=len(orders)), decided(distinct < len(orders), True)
            found = {"distinct": distinct, "batches": common, "dataset": source.dataset}
            yield self.judgement("same-order-every-epoch", seen, verdict, "", alarm_if(self._shuffles[source]), **found)

    def _scales(self) -> Judgements:
        training = _statistics([each for each in self._passes.values() if each.batches.trained])
        evaluation = _statistics([each for each in self._passes.values() if each.evaluates])
        if training is None or evaluation is None or len(training[1]) != len(evaluation[1]):
            return
        shift = float(((evaluation[1] - training[1]).abs() / training[2].clamp(min=1e-9)).max())
        ratios = (evaluation[2] / training[2].clamp(min=1e-9)).tolist()
        is_other = shift > _SHIFT or not all(_RATIOS[0] <= ratio <= _RATIOS[1] for ratio in ratios)
        is_same = shift < _NO_SHIFT and all(_SAME_RATIOS[0] <= ratio <= _SAME_RATIOS[1] for ratio in ratios)
        images = min(training[0], evaluation[0])
        verdict = decided(is_other, is_same) if images >= _IMAGES else "INCONCLUSIVE"
        yield self.judgement("DL507", self.whole(), verdict, shift=shift, ratios=ratios, images=images)


def _compared(orders: list[list[Any]]) -> tuple[int, int]:
    """How many batches all passes have, and how many distinct orders of these there are."""
    common = min(map(len, orders), default=0)
    return common, len({repr(order[:common]) for order in orders})


def _is_sequential(order: list[list[Any]]) -> bool:
    flat = [index for batch in order for index in batch]
    return flat == list(range(len(flat)))


def _statistics(passes: list[_Pass]) -> tuple[int, Tensor, Tensor] | None:
    """The number of images, and the means and deviations of their channels; None where there are none to compare."""
    sums = [pair for each in passes for pair in each.sums]
    if not sums or len({len(moments[0]) for _, moments in sums}) > 1:
        return None
    images = sum(number for number, _ in sums)
    mean, square = torch.stack([number * moments.cpu() for number, moments in sums]).sum(0) / images
    return images, mean, (square - mean.square()).clamp(min=0).sqrt()
