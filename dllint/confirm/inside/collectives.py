"""Observes what ranks do together, so that dllint can tell after the run whether all of them did the same, and models
that are wrapped for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from dllint.confirm.inside.patching import ended, observe
from dllint.confirm.inside.run import Run

_ALIKE = ("all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor")  # of the same size on all ranks
_OTHERS = ("all_to_all", "all_to_all_single", "barrier", "gather", "reduce_scatter", "reduce_scatter_tensor", "scatter")
_MOST = 1000


def observe_all(run: Run) -> None:
    """Observe collective operations of all ranks together. What a part of them does is left alone."""
    if dist.is_available():
        for name in (*_ALIKE, *_OTHERS):
            if hasattr(dist, name):
                observe(run, dist, name, before=_noting(run, name, inspect.signature(getattr(dist, name))))
    observe(run, DistributedDataParallel, "__init__", after=ended(run, "replicate"))


def _noting(run: Run, name: str, signature: inspect.Signature) -> Callable[..., None]:
    def note(*arguments: Any, **named: Any) -> None:
        given = signature.bind(*arguments, **named).arguments
        if len(run.record.collectives) >= _MOST or given.get("group") not in (None, dist.group.WORLD):
            return
        tensor = next((value for value in given.values() if isinstance(value, Tensor)), None)
        size = f" of {list(tensor.shape)}" if name in _ALIKE and tensor is not None else ""
        run.record.collectives.append(name + size)

    return note
