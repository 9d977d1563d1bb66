"""DL418: batches of workers that do not fit into the memory that processes share."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import Batches, Probe

_FOLDER = "/dev/shm"  # where Linux keeps it
_TWICE = 2  # a batch is made while the one before is still held
_DEPTH = 4  # tuples and dicts in a batch
_MEGABYTE = 1e6
_DEATHS = ("unable to allocate shared memory", "unable to open shared memory", "bus error", "out of shared memory")


@dataclass(slots=True)
class _Loader:
    """A loader with workers: what was free when its first pass began, and what it may need."""

    made: Stack
    free: int
    at_once: int  # batches
    batch: int = 0  # bytes
    error: str = ""


class SharedMemory(Probe):
    """Measures the first batch of each loader with workers, and reads why its workers die."""

    name = "shared_memory"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._loaders: list[_Loader] = []
        self._by_loader: WeakKeyDictionary[Any, _Loader] = WeakKeyDictionary()

    def on_pass(self, batches: Batches) -> None:
        loader = batches.loader
        if loader is None or loader in self._by_loader or not loader.num_workers or not os.path.isdir(_FOLDER):
            return
        system = os.statvfs(_FOLDER)
        at_once = loader.num_workers * (loader.prefetch_factor or 1) * _TWICE
        known = self._by_loader[loader] = _Loader(batches.made, system.f_bavail * system.f_frsize, at_once)
        self._loaders.append(known)

    def on_batch(self, batches: Batches, batch: Any) -> None:
        loader = batches.loader
        known = self._by_loader.get(loader) if loader is not None else None
        if known is not None and not known.batch:
            known.batch = sum(_sizes(batch, _DEPTH))

    def on_batch_refused(self, batches: Batches, error: Exception) -> None:
        loader = batches.loader
        known = self._by_loader.get(loader) if loader is not None else None
        told = str(error)
        if known is not None and any(death in told.lower() for death in _DEATHS):
            known.error = next(line for line in told.splitlines() if any(death in line.lower() for death in _DEATHS))

    def judge(self) -> Iterator[Judgement]:
        for loader in self._loaders:
            if not loader.batch and not loader.error:
                continue
            needed = loader.batch * loader.at_once
            free = f"{loader.free / _MEGABYTE:.0f} MB of shared memory were free"
            if loader.error:
                what = f"{free}, and a worker died of it: {loader.error.strip()[:200]}"
            else:
                batch = loader.batch / _MEGABYTE
                what = f"batches of {batch:.3g} MB, {loader.at_once} of them at once in all workers, and {free}"
            yield Judgement(
                "DL418",
                self.name,
                "CONFIRMED" if loader.error or needed > loader.free else "REFUTED",
                what,
                "the bytes of a batch times workers times `prefetch_factor` times 2 are more than is free, or a worker "
                "dies of it; less refutes",
                {"batch": loader.batch, "at_once": loader.at_once, "free": loader.free, "error": loader.error},
                1,
                (0, self.run.steps),
                (loader.made,),
                "note",
            )


def _sizes(value: Any, depth: int) -> Iterator[int]:
    """The bytes of each tensor of a batch."""
    if isinstance(value, Tensor):
        yield value.numel() * value.element_size()
    elif depth and isinstance(value, (Mapping, list, tuple)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _sizes(part, depth - 1)
