"""DL411, DL515 and DL516: batch norms that take their statistics from few values, read from the graph.

What counts is how many values a channel has, not how many samples: a batch of two images of 14 by 14 has 392, and its
statistics are good. With one value per channel torch refuses, which is what happens in the last batch of an epoch if
one sample is left over for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch.distributed as dist
from torch import nn
from torch.nn.modules.batchnorm import SyncBatchNorm, _BatchNorm
from torch.nn.parallel import DistributedDataParallel

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import ENOUGH, BackwardCall, Batches, PlaceProbe, Samples, stack_of
from dllint.confirm.probes.graph import nodes
from dllint.events import ModelForward

_NODES = ("NativeBatchNormBackward0", "CudnnBatchNormBackward0", "MiopenBatchNormBackward0")
_FEW = 32  # values of a channel: below, running variances are off by a tenth and more
_TINY = 4  # values from which a model gives other outputs in evaluation, by more than half of what they are
_PART = 0.5  # of the calls


@dataclass(slots=True, eq=False)
class _Norms(Samples):
    """The batch norms behind the backward passes from one place."""

    norms: int = 0  # calls of them
    few: int = 0  # calls with few values for each channel
    tiny: int = 0  # calls with hardly any
    fewest: int = 0  # values for each channel
    is_flat: bool = False  # one sample gives a channel one value
    is_replicated: bool = False


@dataclass(slots=True)
class _Loader:
    """A loader that gives a last batch of one sample."""

    samples: int
    batch: int
    is_alone: bool  # one sample is left over for the last batch
    made: Stack
    trains: bool = False
    is_flat: bool = False


class BatchNorms(PlaceProbe[_Norms]):
    """Counts the values that a channel has in training, and the samples that are left over for the last batch."""

    name = "batch_norms"
    samples = _Norms
    at_first = 5

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._loaders: list[_Loader] = []
        self._by_loader: WeakKeyDictionary[Any, _Loader | None] = WeakKeyDictionary()
        self._latest: _Loader | None = None
        self._is_replicated = False
        self._wrapped: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()

    def on_batch(self, batches: Batches, batch: Any) -> None:
        loader = batches.loader
        if loader is None:
            self._latest = None
            return
        if loader not in self._by_loader:
            known = self._by_loader[loader] = _described(loader, batches.made)
            if known is not None:
                self._loaders.append(known)
        self._latest = self._by_loader[loader]

    def on_model_forward(self, event: ModelForward[Any]) -> None:
        module: nn.Module = event.model
        if event.grad == "on":
            self._is_replicated = isinstance(module, DistributedDataParallel) and self._has_local_norms(module)

    def _has_local_norms(self, module: nn.Module) -> bool:
        """Whether a wrapped model has batch norms that know nothing of other ranks."""
        if module not in self._wrapped:
            self._wrapped[module] = _are_several() and any(_is_local(part) for part in module.modules())
        return self._wrapped[module]

    def before_backward(self, call: BackwardCall) -> None:
        loader, self._latest = self._latest, None
        if loader is not None:
            loader.trains = True
        seen = self.sample(stack_of(call))
        if seen is None or self.run.packs:
            return
        shapes = [shape for node in nodes(call.roots) if node.name() in _NODES and (shape := _shape(node))]
        if not shapes:
            return
        values = [shape.numel() // shape[1] for shape in shapes]
        seen.looks += 1
        seen.norms += len(shapes)
        seen.few += sum(count < _FEW for count in values)
        seen.tiny += sum(count <= _TINY for count in values)
        seen.fewest = min(values + [seen.fewest] * bool(seen.fewest))
        seen.is_flat = seen.is_flat or any(count == shape[0] for count, shape in zip(values, shapes, strict=True))
        seen.is_replicated = seen.is_replicated or self._is_replicated
        if loader is not None:
            loader.is_flat = loader.is_flat or seen.is_flat

    def judge(self) -> Iterator[Judgement]:
        yield from super().judge()
        for loader in self._loaders:
            if loader.trains and loader.is_flat:
                yield Judgement(
                    "DL411",
                    self.name,
                    "CONFIRMED" if loader.is_alone else "REFUTED",
                    f"{loader.samples} samples in batches of {loader.batch} leave {loader.samples % loader.batch} for "
                    "the last one, and a batch norm has one value per sample and channel",
                    "one sample in the last batch, where a sample gives a channel one value; else refuted",
                    {"samples": loader.samples, "batch": loader.batch, "left": loader.samples % loader.batch},
                    1,
                    (0, self.run.steps),
                    (loader.made,),
                    "note",
                )

    def judge_place(self, place: Stack, seen: _Norms) -> Iterator[Judgement]:
        if seen.norms:
            yield self._sized("DL515", place, seen)
            if seen.is_replicated:
                yield self._sized("DL516", place, seen)

    def _sized(self, rule: str, stack: Stack, seen: _Norms) -> Judgement:
        many = seen.few > _PART * seen.norms
        local = ", of one rank alone" if rule == "DL516" else ""
        return self.judgement(
            rule,
            stack,
            seen,
            "INCONCLUSIVE" if seen.looks < ENOUGH else "CONFIRMED" if many else "REFUTED",
            f"in {seen.few} of {seen.norms} calls of batch norms a channel had fewer than {_FEW} values{local}: "
            f"{seen.fewest} at the least",
            "fewer than 32 values in over half of the calls, in 3 or more backward passes; else refuted",
            {"few": seen.few, "calls": seen.norms, "fewest": seen.fewest},
            "note" if seen.tiny > _PART * seen.norms else "",
        )


def _shape(node: Any) -> Any:
    """The shape of what a batch norm in training was given; None for one in evaluation."""
    try:
        return node._saved_input.shape if node._saved_training else None
    except (AttributeError, RuntimeError):  # of another torch, or written over by the script
        return None


def _described(loader: Any, made: Stack) -> _Loader | None:
    """What is left over for the last batch; None where the number of samples or of those in a batch is not known."""
    batch, sampler = getattr(loader, "batch_size", None), getattr(loader, "sampler", None)
    if not batch or batch < 2 or not hasattr(sampler, "__len__"):
        return None
    samples = len(sampler)  # type: ignore[arg-type]
    return _Loader(samples, batch, samples % batch == 1 and not loader.drop_last, made)


def _is_local(part: nn.Module) -> bool:
    return isinstance(part, _BatchNorm) and not isinstance(part, SyncBatchNorm) and part.training


def _are_several() -> bool:
    return bool(dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1)
