"""DL418: batches of workers that do not fit into the memory that processes share. Measures the first batch of each
loader with workers, and reads why its workers die."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from dllint.confirm.inside.feed import Source
from dllint.confirm.inside.parts import tensors
from dllint.confirm.probes.base import Judgements, Probe, decided
from dllint.confirm.probes.events import Batches

_FOLDER = "/dev/shm"  # where Linux keeps it
_TWICE = 2  # a batch is made while the one before is still held
_DEPTH = 4  # tuples and dicts in a batch
_MEGABYTE = 1e6
_DEATHS = ("unable to allocate shared memory", "unable to open shared memory", "bus error", "out of shared memory")


@dataclass(slots=True)
class _Loader:
    """A loader with workers: what was free when its first pass began, and what it may need."""

    free: int
    at_once: int  # batches
    batch: int = 0  # bytes
    error: str = ""


class SharedMemory(Probe):
    def begin(self) -> None:
        self._loaders: dict[Source, _Loader] = {}

    def on_pass(self, batches: Batches) -> None:
        loader = batches.loader
        if loader is not None and batches.source not in self._loaders and loader.num_workers and os.path.isdir(_FOLDER):
            system = os.statvfs(_FOLDER)
            at_once = loader.num_workers * (loader.prefetch_factor or 1) * _TWICE
            self._loaders[batches.source] = _Loader(system.f_bavail * system.f_frsize, at_once)

    def on_batch(self, batches: Batches, batch: Any) -> None:
        known = self._loaders.get(batches.source)
        if known is not None and not known.batch:
            known.batch = sum(part.numel() * part.element_size() for part in tensors(batch, _DEPTH))

    def on_batch_refused(self, batches: Batches, error: Exception) -> None:
        known = self._loaders.get(batches.source)
        deaths = [line for line in str(error).splitlines() if any(death in line.lower() for death in _DEATHS)]
        if known is not None and deaths:
            known.error = deaths[0]

    def judge(self) -> Judgements:
        for source, loader in self._loaders.items():
            if not loader.batch and not loader.error:
                continue
            free = f"{loader.free / _MEGABYTE:.0f} MB of shared memory were free"
            told = f"{free}, and a worker died of it: {loader.error.strip()[:200]}"
            if not loader.error:
                batch = loader.batch / _MEGABYTE
                told = f"batches of {batch:.3g} MB, {loader.at_once} of them at once in all workers, and {free}"
            verdict = decided(loader.error or loader.batch * loader.at_once > loader.free, True)
            found = {"batch": loader.batch, "at_once": loader.at_once, "free": loader.free, "error": loader.error}
            yield self.judgement("DL418", self.whole(source.made), verdict, told, **found)
