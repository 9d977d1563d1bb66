"""What workers note: the random state that each of them begins its work in, parts of samples that do not fit together,
indices that there are no samples for, and caches that fill up.

A worker is a process of its own, which does not report. It writes a line for the first batch that it fetches in each
pass, and for one that it cannot fetch; the process that trains reads them at the end.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils.data import IterableDataset, get_worker_info
from torch.utils.data._utils import fetch

from dllint.confirm.inside import images
from dllint.confirm.inside.parts import leaves, parts, tensors, vars_of
from dllint.confirm.inside.patching import replace

_ELEMENTS = 64  # of a batch that it is known by
_LABELS, _KINDS = 16, 2  # labels of a batch, and kinds of them, that are not the same by chance
_DEPTH = 3  # attributes between a dataset and a generator that it keeps
_PARTS = 3  # dicts and sequences inside of a sample
_MOST = 4096  # samples of a batch that are compared
_SLOTS = 100_000  # places of a list that are looked at one by one
_FETCHERS = ("_MapDatasetFetcher", "_IterableDatasetFetcher")
_SIMPLE = (str, bytes, int, float, bool, type(None), torch.Tensor, type, ModuleType)


def observe_fetching(folder: str) -> None:
    """Note the random states around the first fetch of each pass, in this process and in those forked from it."""

    def observed(original: Any, fetcher: Any, index: Any) -> Any:
        if getattr(fetcher, "_dllint_noted", False):
            return _guarded(original, fetcher, index, folder)
        fetcher._dllint_noted = True
        fetcher.collate_fn = Collating(fetcher.collate_fn)
        before, sizes = _states(fetcher), cache_sizes(fetcher.dataset)
        with images.fetching(is_worker=get_worker_info() is not None):
            result = _guarded(original, fetcher, index, folder)
        after, collating = _states(fetcher), fetcher.collate_fn

        def noted() -> dict[str, Any]:
            return {
                "states": {name: [state, after[name]] for name, state in before.items() if name in after},
                **(_contents(result) if isinstance(fetcher.dataset, IterableDataset) else {}),
                "caches": grown(fetcher.dataset, sizes, collating.samples),
                "lost": collating.lost,
                "orders": collating.orders,
            }

        _write(folder, "fetch", fetcher, noted)
        return result

    for name in _FETCHERS:
        replace(getattr(fetch, name), "fetch", observed)


def read_notes(folder: str, kind: str = "fetch") -> list[dict[str, Any]]:
    """The lines of a kind (``fetch``, ``failure``) that workers of this rank wrote, those of one worker in order."""
    files = sorted(Path(folder).glob(f"{kind}-*.jsonl"), key=lambda path: path.stat().st_mtime_ns)
    notes = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    return [note for note in notes if note["rank"] in (_rank(), "") or not _rank()]


def _rank() -> str:
    return os.environ.get("RANK", "")


def key_of(dataset: Any) -> str:
    """What a dataset is known by in all processes."""
    try:
        length = str(len(dataset))
    except Exception:  # it has no length, or does not know it
        length = "?"
    return f"{type(dataset).__qualname__}[{length}]"


def _guarded(original: Any, fetcher: Any, index: Any, folder: str) -> Any:
    """Fetch, and note why it fails if it does."""
    try:
        return original(fetcher, index)
    except Exception as error:
        _write(folder, "failure", fetcher, partial(reason, error, index, fetcher))
        raise


def _contents(batch: Any) -> dict[str, str]:
    """What a batch and its labels are known by. Labels are what random changes of samples leave as it is."""
    labels = [part for part in tensors(batch) if not part.is_floating_point() and part.numel() >= _LABELS]
    telling = [part for part in labels if len(set(part.reshape(-1)[:_ELEMENTS].tolist())) > _KINDS]
    return {"content": content_of(batch), "labels": content_of(telling)}


def _write(folder: str, kind: str, fetcher: Any, make: Callable[[], dict[str, Any]]) -> None:
    """Write a note, with what all of them say: whose it is, and what has been normalized there."""
    worker = get_worker_info()
    try:
        known = {"worker": -1 if worker is None else worker.id, "rank": _rank(), "dataset": key_of(fetcher.dataset)}
        with open(Path(folder, f"{kind}-{os.getpid()}.jsonl"), "a") as file:
            file.write(json.dumps({**known, "normalized": images.normalized(), **make()}) + "\n")
    except Exception as error:  # the worker must go on as without dllint
        print(f"dllint confirm: the state of a worker cannot be noted: {error!r}", file=sys.stderr)


def content_of(batch: Any, depth: int = 3) -> str:
    """A digest of the numbers and words of a batch; empty where there are none."""
    if isinstance(batch, torch.Tensor):
        batch = f"{list(batch.shape)} {batch.detach().reshape(-1)[:_ELEMENTS].tolist()}"
    elif isinstance(batch, (list, tuple, dict)) and depth:
        parts = batch.values() if isinstance(batch, dict) else batch
        batch = "".join(content_of(part, depth - 1) for part in list(parts)[:_ELEMENTS])
    if not isinstance(batch, (str, int, float)) or batch == "":
        return ""
    return _digest(repr(batch))


def random_states(*, with_devices: bool = False) -> dict[str, str]:
    """A digest of the state of each generator of this process that all code draws from, by name."""
    states: dict[str, Any] = {"random": random.getstate(), "torch": torch.get_rng_state().numpy().tobytes()}
    if with_devices and torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states["cuda"] = torch.cuda.get_rng_state().numpy().tobytes()
    if numpy := sys.modules.get("numpy"):
        states["numpy"] = [str(part) for part in numpy.random.get_state()]
    return {name: _digest(repr(state)) for name, state in states.items()}


@contextmanager
def random_states_kept() -> Iterator[None]:
    """Put the states of all global generators back at the end."""
    python, cpu = random.getstate(), torch.get_rng_state()
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    numpy = sys.modules.get("numpy")
    state = numpy.random.get_state() if numpy is not None else None
    try:
        yield
    finally:
        random.setstate(python)
        torch.set_rng_state(cpu)
        if devices:
            torch.cuda.set_rng_state_all(devices)
        if numpy is not None:
            numpy.random.set_state(state)


def _states(fetcher: Any) -> dict[str, str]:
    """The same, and of generators that a dataset keeps; none where they cannot be read."""
    try:
        found = random_states()
        for root, value in (("dataset", fetcher.dataset), ("collate_fn", fetcher.collate_fn.inner)):
            found |= {name: _digest(repr(state)) for name, state in _generators(value, root, _DEPTH, set())}
        return found
    except Exception as error:
        print(f"dllint confirm: random states cannot be read: {error!r}", file=sys.stderr)
        return {}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _generators(value: Any, name: str, depth: int, seen: set[int]) -> Iterator[tuple[str, Any]]:
    """The states of the generators that an object keeps, by the path to them."""
    if id(value) in seen or isinstance(value, _SIMPLE):
        return
    seen.add(id(value))
    if isinstance(value, random.Random):
        yield name, value.getstate()
    elif isinstance(value, torch.Generator):
        yield name, value.get_state().tolist()
    elif type(value).__module__.startswith("numpy.random"):
        bits = getattr(value, "bit_generator", None)
        yield name, str(bits.state if bits is not None else [str(part) for part in value.get_state()])
    elif depth:
        for key, item in parts(value):
            yield from _generators(item, f"{name}{key}", depth - 1, seen)


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
            self.orders = images.orders(samples) if isinstance(samples, list) else []
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
    described = [{name: _shape(part) for name, part in leaves(sample, _PARTS, within=whole)} for sample in samples]
    found = []
    for name in {name: None for each in described for name in each}:
        shapes = {each.get(name, "missing"): None for each in described}
        if len(shapes) > 1:
            found.append(f"{name or 'the sample'}: {' and '.join(list(shapes)[:2])}")
    return found or [f"all are {next(iter(described[0].values()), 'empty')}"]


def _shape(value: Any) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return str(list(value.shape)) if hasattr(value, "shape") else type(value).__name__


def cache_sizes(dataset: Any) -> dict[str, int]:
    """How much is in the dicts and lists of a dataset, and in a cache around its ``__getitem__``, by name."""
    sizes = {}
    for name, value in vars_of(dataset).items():
        if isinstance(value, list) and len(value) <= _SLOTS:
            sizes[name] = sum(item is not None for item in value)  # others are places that are still empty
        elif isinstance(value, (dict, list)):
            sizes[name] = len(value)
    info = getattr(getattr(type(dataset), "__getitem__", None), "cache_info", None)
    return {**sizes, "__getitem__": info().currsize} if info is not None else sizes


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
    values = [part for item in items for part in (item if isinstance(item, (tuple, list)) else (item,))]
    return any(isinstance(value, (torch.Tensor, bytes)) or hasattr(value, "tobytes") for value in values)
