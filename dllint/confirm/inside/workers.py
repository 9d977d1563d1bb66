"""Notes the random state that each worker of a loader begins its work in, by the worker itself.

A worker is a process of its own, which does not report. It writes a line for the first batch that it fetches in each
pass, and for one that it cannot fetch; the process that trains reads them at the end.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils.data import IterableDataset, get_worker_info
from torch.utils.data._utils import fetch

from dllint.confirm.inside import images
from dllint.confirm.inside.parts import parts, tensors
from dllint.confirm.inside.samples import Collating, cache_sizes, grown, reason

_ELEMENTS = 64  # of a batch that it is known by
_LABELS, _KINDS = 16, 2  # labels of a batch, and kinds of them, that are not the same by chance
_DEPTH = 3  # attributes between a dataset and a generator that it keeps
_FETCHERS = ("_MapDatasetFetcher", "_IterableDatasetFetcher")
_SIMPLE = (str, bytes, int, float, bool, type(None), torch.Tensor, type, ModuleType)


def observe_fetching(folder: str) -> None:
    """Note the random states around the first fetch of each pass, in this process and in those forked from it."""
    for name in _FETCHERS:
        _observe(getattr(fetch, name), folder)


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


def _observe(fetcher: Any, folder: str) -> None:
    original = fetcher.fetch

    @functools.wraps(original)
    def observed(self: Any, index: Any) -> Any:
        if getattr(self, "_dllint_noted", False):
            return _guarded(original, self, index, folder)
        self._dllint_noted = True
        self.collate_fn = Collating(self.collate_fn)
        before, sizes = _states(self), cache_sizes(self.dataset)
        with images.fetching(is_worker=get_worker_info() is not None):
            result = _guarded(original, self, index, folder)
        after = _states(self)
        _write(folder, "fetch", lambda: _noted(self, before, after, sizes, result))
        return result

    fetcher.fetch = observed


def _guarded(original: Any, fetcher: Any, index: Any, folder: str) -> Any:
    """Fetch, and note why it fails if it does."""
    try:
        return original(fetcher, index)
    except Exception as raised:
        error = raised
        _write(folder, "failure", lambda: {**_about(fetcher), **reason(error, index, fetcher)})
        raise


def _about(fetcher: Any) -> dict[str, Any]:
    """What all notes say: whose they are, and what has been normalized there."""
    worker = get_worker_info()
    number = worker.id if worker is not None else -1
    known = {"worker": number, "rank": _rank(), "dataset": key_of(fetcher.dataset)}
    return {**known, "normalized": images.normalized()}


def _noted(
    fetcher: Any, before: dict[str, str], after: dict[str, str], sizes: dict[str, int], batch: Any
) -> dict[str, Any]:
    return {
        **_about(fetcher),
        "states": {name: [state, after[name]] for name, state in before.items() if name in after},
        **(_contents(batch) if isinstance(fetcher.dataset, IterableDataset) else {}),
        "caches": grown(fetcher.dataset, sizes, fetcher.collate_fn.samples),
        "lost": fetcher.collate_fn.lost,
        "orders": fetcher.collate_fn.orders,
    }


def _contents(batch: Any) -> dict[str, str]:
    """What a batch and its labels are known by. Labels are what random changes of samples leave as it is."""
    labels = [part for part in tensors(batch) if not part.is_floating_point() and part.numel() >= _LABELS]
    telling = [part for part in labels if len(set(part.reshape(-1)[:_ELEMENTS].tolist())) > _KINDS]
    return {"content": content_of(batch), "labels": content_of(telling)}


def _write(folder: str, kind: str, make: Callable[[], dict[str, Any]]) -> None:
    try:
        with open(Path(folder, f"{kind}-{os.getpid()}.jsonl"), "a") as file:
            file.write(json.dumps(make()) + "\n")
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
        yield name, _numpy_state(value)
    elif depth:
        for key, item in parts(value):
            yield from _generators(item, f"{name}{key}", depth - 1, seen)


def _numpy_state(generator: Any) -> str:
    bits = getattr(generator, "bit_generator", None)
    return str(bits.state if bits is not None else [str(part) for part in generator.get_state()])
