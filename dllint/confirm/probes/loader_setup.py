"""DL407, DL408, DL417 and DL418: how loaders are set up: what cannot be pinned, what cannot be sent to a worker, shares
of shares, and batches of workers that do not fit into the memory that processes share.

What can be sent is told by looking at the functions and attributes themselves: pickling would run code of the user's,
some of which changes the object that is pickled.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import sys
import threading
from collections.abc import Iterator
from math import prod
from types import FunctionType, GeneratorType, ModuleType
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import IterableDataset

from dllint.confirm.inside.loaders import Source, samplers_of
from dllint.confirm.inside.parts import parts, tensors
from dllint.confirm.probes.base import ENOUGH, Judgements, Notes, Probe, Tensor, Voice, decided, events

_DEPTH = 3  # attributes between a dataset and what it keeps
_SHARED = "/dev/shm"  # the memory that processes share, where Linux keeps it
_TWICE = 2  # a batch is made while the one before is still held
_MEGABYTE = 1e6
_DEATHS = ("unable to allocate shared memory", "unable to open shared memory", "bus error", "out of shared memory")
_FORKED = "fork"
_BOUND = (type(threading.Lock()), type(threading.RLock()), io.IOBase, GeneratorType, ModuleType)  # to this process
_OWN_WAYS = ("__getstate__", "__reduce__", "__reduce_ex__", "__getnewargs__", "__deepcopy__")
_PLAIN = (type, Tensor, str, bytes, int, float, type(None))


class _Loader(Notes):
    start: str  # how its workers start; empty where it has none
    pins: bool
    unsendable: list[str] = []
    sharers: list[int] = []  # by how many ranks its samplers divide, the outermost first
    unpinned: list[str] = []
    batches: int = 0
    free: int = 0  # bytes of shared memory
    at_once: int = 0  # batches in it
    batch: int = 0  # bytes
    error: str = ""  # of which a worker died


class LoaderSetup(Probe):
    _loaders: dict[Source, _Loader] = {}

    def on_pass(self, batches: events.Batches) -> None:
        loader = batches.loader
        if loader is None or batches.source in self._loaders:
            return
        start = _start_method(loader) if loader.num_workers else ""
        known = self._loaders[batches.source] = _Loader(start, bool(loader.pin_memory))
        if start:
            seen: set[int] = set()
            for name in ("dataset", "collate_fn", "worker_init_fn"):
                known.unsendable += _unsendable(getattr(loader, name), name, _DEPTH, seen)
            if os.path.isdir(_SHARED):
                system = os.statvfs(_SHARED)
                known.free = system.f_bavail * system.f_frsize
                known.at_once = loader.num_workers * (loader.prefetch_factor or 1) * _TWICE
        counts = [getattr(each, name, 1) for each in samplers_of(loader) for name in ("num_replicas", "num_processes")]
        known.sharers = [count for count in counts if isinstance(count, int) and count > 1]

    def on_batch(self, batches: events.Batches, batch: Any) -> None:
        known = self._loaders.get(batches.source)
        if known is not None and batches.taken <= ENOUGH:
            known.batches += 1
            if known.at_once and not known.batch:
                known.batch = sum(part.numel() * part.element_size() for part in tensors(batch, _DEPTH + 1))
            if known.pins:
                known.unpinned = sorted({*known.unpinned, *_unpinned(batch, "the batch", _DEPTH)})

    def on_batch_refused(self, batches: events.Batches, error: Exception) -> None:
        known = self._loaders.get(batches.source)
        deaths = [line for line in str(error).splitlines() if any(death in line.lower() for death in _DEATHS)]
        if known is not None and known.at_once and deaths:
            known.error = deaths[0].strip()[:200]

    def judge(self) -> Judgements:
        for source, loader in self._loaders.items():
            seen = self.whole(source.made)
            if loader.pins and loader.batches:
                told = f"{', '.join(loader.unpinned) or 'nothing'} in {loader.batches} batches"
                yield self.judgement("DL407", seen, decided(loader.unpinned, True), told, unpinned=loader.unpinned)
            if loader.start:
                were_sent = loader.start != _FORKED and loader.batches > 0
                unsendable = [] if were_sent else loader.unsendable
                told = f"{', '.join(unsendable)} cannot be pickled" if unsendable else "all that is seen can be pickled"
                told += f", and workers start by `{loader.start}`"
                voice: Voice = "" if loader.start == _FORKED else "alarm"
                yield self.judgement("DL408", seen, decided(unsendable, True), told, voice, unsendable=unsendable)
            if loader.batch or loader.error:
                size, free = f"{loader.batch / _MEGABYTE:.3g} MB", f"{loader.free / _MEGABYTE:.0f} MB"
                told = f"{free} of shared memory were free for batches of {size}, {loader.at_once} of them at once"
                told += f"; a worker died of it: {loader.error}" if loader.error else ""
                verdict = decided(loader.error or loader.batch * loader.at_once > loader.free, True)
                yield self.judgement("DL418", seen, verdict, told, batch=loader.batch, free=loader.free)
            if loader.sharers:
                is_set_up = dist.is_available() and dist.is_initialized()
                ranks = dist.get_world_size() if is_set_up else max(loader.sharers)
                told, verdict = " and by ".join(map(str, loader.sharers)), decided(prod(loader.sharers) > ranks, True)
                yield self.judgement("DL417", seen, verdict, f"{told}, among {ranks} ranks", shares=loader.sharers)


def _start_method(loader: Any) -> str:
    context = loader.multiprocessing_context
    if context is not None and hasattr(context, "get_start_method"):
        return str(context.get_start_method())
    return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]


def _unsendable(value: Any, name: str, depth: int, seen: set[int]) -> Iterator[str]:
    """The names of what a worker that is started afresh cannot be sent."""
    if id(value) in seen or isinstance(value, _PLAIN):
        return
    seen.add(id(value))
    usual = IterableDataset if isinstance(value, IterableDataset) else object
    if isinstance(value, FunctionType):
        found: Any = sys.modules.get(value.__module__)
        for part in value.__qualname__.split("."):
            found = getattr(found, part, None)
        if found is None:  # where pickling looks for it
            yield f"`{name}` ({value.__qualname__})"
    elif isinstance(value, (*_BOUND, torch.Generator)):
        yield f"`{name}` ({type(value).__name__})"
    elif depth and (
        isinstance(value, (list, tuple, dict))  # else it may say itself how it is pickled
        or all(getattr(type(value), way, None) is getattr(usual, way, None) for way in _OWN_WAYS)
    ):
        for key, item in parts(value):
            yield from _unsendable(item, f"{name}{key}", depth - 1, seen)


def _unpinned(value: Any, name: str, depth: int) -> Iterator[str]:
    """The places of tensors that pinning does not come to."""
    if isinstance(value, (Tensor, str, bytes)) or hasattr(value, "pin_memory"):
        return
    is_container = isinstance(value, (dict, list, tuple))
    for key, item in parts(value) if is_container or depth else ():
        if isinstance(item, Tensor) and not is_container:
            yield f"`{name}{key}`"
        else:
            yield from _unpinned(item, f"{name}{key}", depth if is_container else depth - 1)
