"""DL411, DL515 and DL516: batch norms that take their statistics from few values, read from the graph.

What counts is how many values a channel has, not how many samples: a batch of two images of 14 by 14 has 392, and its
statistics are good. With one value per channel torch refuses, which is what happens in the last batch of an epoch if
one sample is left over for it.
"""

from __future__ import annotations

from typing import Any

from torch.nn.modules.batchnorm import SyncBatchNorm, _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from dllint.confirm.inside.loaders import Source
from dllint.confirm.probes.base import Judgements, PlaceProbe, Samples, Voice, decided, events, nn, stack_of
from dllint.confirm.probes.rank_comparison import are_several_ranks

_NODES = ("NativeBatchNormBackward0", "CudnnBatchNormBackward0", "MiopenBatchNormBackward0")
_FEW = 32  # values of a channel: below, running variances are off by a tenth and more
_TINY = 4  # values from which a model gives other outputs in evaluation, by more than half of what they are
_PART = 0.5  # of the calls


class _Norms(Samples):
    norms: int = 0  # calls of them
    few: int = 0  # calls with few values for each channel
    tiny: int = 0  # calls with hardly any
    fewest: int = 0  # values for each channel
    is_flat: bool = False  # one sample gives a channel one value
    is_replicated: bool = False


class BatchNorms(PlaceProbe[_Norms]):
    at_first = 5
    _sizes: dict[Source, tuple[int, int, bool] | None] = {}  # samples, those of a batch, one is left over
    _flat: set[Source] = set()  # loaders of models in which a sample gives a channel one value
    _is_replicated = False

    def on_batch(self, batches: events.Batches, batch: Any) -> None:
        if batches.source not in self._sizes:
            self._sizes[batches.source] = _sizes(batches.loader)

    def on_model_forward(self, event: events.ModelForward) -> None:
        if event.grad == "on":
            is_wrapped = isinstance(event.model, DistributedDataParallel) and are_several_ranks()
            self._is_replicated = is_wrapped and self.has_part(event.model, _is_local)

    def before_backward(self, call: events.BackwardCall) -> None:
        seen = self.sample(stack_of(call))
        if seen is None or self.run.packs:
            return
        shapes = [shape for node in call.nodes if node.name() in _NODES and (shape := _shape(node))]
        if not shapes:
            return
        values = [shape.numel() // shape[1] for shape in shapes]
        seen.count()
        seen.norms += len(shapes)
        seen.few += sum(count < _FEW for count in values)
        seen.tiny += sum(count <= _TINY for count in values)
        seen.fewest = min(values + [seen.fewest] * bool(seen.fewest))
        seen.is_flat = seen.is_flat or any(count == shape[0] for count, shape in zip(values, shapes, strict=True))
        seen.is_replicated = seen.is_replicated or self._is_replicated
        if call.batches is not None and seen.is_flat:
            self._flat.add(call.batches.source)

    def judge(self) -> Judgements:
        yield from super().judge()
        for source, sizes in self._sizes.items():
            if sizes is not None and source in self._flat:
                samples, batch, is_alone = sizes
                found = {"samples": samples, "batch": batch, "left": samples % batch}
                yield self.judgement("DL411", self.whole(source.made), decided(is_alone, True), **found)

    def judge_each(self, seen: _Norms) -> Judgements:
        verdict = seen.verdict(seen.few > _PART * seen.norms)
        voice: Voice = "note" if seen.tiny > _PART * seen.norms else ""
        rules = ("DL515", "DL516") if seen.is_replicated else ("DL515",)
        for rule in rules if seen.norms else ():
            yield self.judgement(rule, seen, verdict, "", voice)


def _shape(node: Any) -> Any:
    """The shape of what a batch norm in training was given; None for one in evaluation."""
    try:
        return node._saved_input.shape if node._saved_training else None
    except (AttributeError, RuntimeError):  # of another torch, or written over by the script
        return None


def _sizes(loader: Any) -> tuple[int, int, bool] | None:
    """The samples of a loader, those of a batch, and whether one is left over; None where that is not known."""
    batch, sampler = getattr(loader, "batch_size", None), getattr(loader, "sampler", None)
    if not batch or batch < 2 or not hasattr(sampler, "__len__"):
        return None
    samples = len(sampler)  # type: ignore[arg-type]
    return samples, batch, samples % batch == 1 and not loader.drop_last


def _is_local(part: nn.Module) -> bool:
    """Whether a layer is a batch norm that knows nothing of other ranks."""
    return isinstance(part, _BatchNorm) and not isinstance(part, SyncBatchNorm) and part.training
