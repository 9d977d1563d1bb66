"""What workers notice about samples: parts that do not fit together, indices that there are none for, and caches that
fill up."""

from __future__ import annotations

from itertools import islice
from typing import Any

import torch

from dllint.confirm.inside.images import orders
from dllint.confirm.inside.parts import leaves, vars_of

_MOST = 4096  # samples of a batch that are compared
_SLOTS = 100_000  # places of a list that are looked at one by one
_DEPTH = 3  # dicts and sequences inside of a sample


class Collating:
    """Stands in the place of the function that makes a batch of samples, within one worker."""

    def __init__(self, function: Any) -> None:
        self.inner = function
        self.samples = 0  # in the first batch
        self.lost: list[str] = []  # keys of its samples that the first of them does not have
        self.failed: list[Any] = []  # the samples that no batch could be made of
        self.orders: list[dict[str, Any]] = []  # of the channels of the samples in the first batch

    def __call__(self, samples: Any) -> Any:
        """Make a batch."""
        is_first = not self.samples
        if is_first:
            self.samples = len(samples) if isinstance(samples, list) else 1
            self.orders = orders(samples) if isinstance(samples, list) else []
        try:
            batch = self.inner(samples)
        except Exception:
            self.failed = list(samples)[:_MOST] if isinstance(samples, list) else []
            raise
        if is_first and isinstance(samples, list) and self.is_default:
            keys = [{str(key) for key in sample} for sample in samples[:_MOST] if isinstance(sample, dict)]
            self.lost = sorted(set().union(*keys) - keys[0]) if keys else []
        return batch

    @property
    def is_default(self) -> bool:
        """Whether it is the function of torch, which stacks what fits together."""
        return str(getattr(self.inner, "__module__", "")).startswith("torch.utils.data")


def reason(error: Exception, index: Any, fetcher: Any) -> dict[str, Any]:
    """Why a batch cannot be made: its samples do not fit together, or there is none for an index that is in range."""
    failed = fetcher.collate_fn.failed
    told = f"{type(error).__name__}: {error}"[:200]
    if failed:
        kind = "collate" if fetcher.collate_fn.is_default else "other"
        return {"kind": kind, "error": told, "parts": _differing(failed)}
    indices = index if isinstance(index, list) else [index]
    length = len(fetcher.dataset) if hasattr(fetcher.dataset, "__len__") else 0
    in_range = all(isinstance(item, int) and 0 <= item < length for item in indices)
    kind = "index" if in_range and is_of_sample(error) else "other"
    return {"kind": kind, "error": told, "indices": str(indices)[:60]}


def is_of_sample(error: Exception) -> bool:
    """Whether an error was raised by looking up a sample, in ``__getitem__`` itself, and not in what that calls."""
    trace = error.__traceback__ if isinstance(error, (IndexError, KeyError)) else None
    name = ""
    while trace is not None:
        called = trace.tb_frame.f_code.co_name
        name = name if called.startswith("<") else called  # of a comprehension
        trace = trace.tb_next
    return name in ("__getitem__", "__getitems__")


def _differing(samples: list[Any]) -> list[str]:
    """The parts in which samples differ, with two of the shapes that they have."""
    whole = (dict, tuple)  # what is looked into; a list may have any length
    described = [{name: _shape(part) for name, part in leaves(sample, _DEPTH, within=whole)} for sample in samples]
    found = []
    for name in {name: None for parts in described for name in parts}:
        shapes = {parts.get(name, "missing"): None for parts in described}
        if len(shapes) > 1:
            found.append(f"{name or 'the sample'}: {' and '.join(list(shapes)[:2])}")
    return found or [f"all are {next(iter(described[0].values()), 'empty')}"]


def _shape(value: Any) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return str(list(value.shape)) if hasattr(value, "shape") else type(value).__name__


def cache_sizes(dataset: Any) -> dict[str, int]:
    """How much is in the dicts and lists of a dataset, and in a cache around its ``__getitem__``, by name."""
    sizes = {name: _size(value) for name, value in vars_of(dataset).items() if isinstance(value, (dict, list))}
    info = getattr(getattr(type(dataset), "__getitem__", None), "cache_info", None)
    return {**sizes, "__getitem__": info().currsize} if info is not None else sizes


def _size(value: dict[Any, Any] | list[Any]) -> int:
    """How many values there are, without places that are still empty."""
    if isinstance(value, list) and len(value) <= _SLOTS:
        return sum(item is not None for item in value)
    return len(value)


def grown(dataset: Any, before: dict[str, int], samples: int) -> dict[str, list[int]]:
    """What has taken in as many values as there are samples, and how much was in it before and after."""
    after = cache_sizes(dataset)
    return {
        name: [before[name], after[name]]
        for name in before
        if name in after and after[name] - before[name] >= max(samples, 1) and _is_heavy(dataset, name)
    }


def _is_heavy(dataset: Any, name: str) -> bool:
    """Whether a cache holds data, and not paths, handles or numbers."""
    value = vars_of(dataset).get(name)
    if value is None:
        return name == "__getitem__"
    filled = value.values() if isinstance(value, dict) else (item for item in value if item is not None)
    items = list(islice(filled, 1))
    parts = [part for item in items for part in (item if isinstance(item, (tuple, list)) else (item,))]
    return any(isinstance(part, (torch.Tensor, bytes)) or hasattr(part, "tobytes") for part in parts)
