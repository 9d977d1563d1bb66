"""DL406, DL409, DL410 and DL412: samples that do not fit together, indices that are answered though they should not be
or refused though they should not be, and caches that are filled for nothing.

Workers note what fails in them, and what their datasets keep. The last sample and the one behind it are asked for when
the run is over, of training data that still exists, unless the run has come to them itself.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from weakref import ref

from torch.utils.data import IterableDataset

from dllint.confirm.inside.loaders import Source
from dllint.confirm.inside.workers import content_of, is_of_sample, random_states_kept, read_notes
from dllint.confirm.probes.base import ENOUGH, Judgements, Probe, alarm_if, decided, events
from dllint.confirm.probes.base import Samples as Seen

_MOST = 20  # datasets
_KEPT = 2  # datasets: one to train on and one to evaluate on


class _Data(Seen):
    """What the run has taken from a dataset: batches, of loaders over it."""

    dataset: Callable[[], Any] = lambda: None  # a way to it that does not keep it alive
    last_index: int = -1  # where there is none
    met_last: bool = False


class Samples(Probe):
    _data: dict[str, _Data] = {}  # by what it is known by
    _sources: dict[Source, _Data] = {}
    _kept: deque[Any] = deque(maxlen=_KEPT)  # so that there is one to ask when the script's variables are gone

    def on_pass(self, batches: events.Batches) -> None:
        source, loader = batches.source, batches.loader
        if loader is not None and all(loader.dataset is not each for each in self._kept):
            self._kept.append(loader.dataset)
        if loader is not None and source not in self._sources and len(self._data) < _MOST:
            last = len(loader.dataset) - 1 if hasattr(loader.dataset, "__len__") else -1
            made = _Data(stacks=(source.made,), last_index=last)
            with suppress(TypeError):  # a list, for instance
                made.dataset = ref(loader.dataset)
            self._sources[source] = self._data.setdefault(source.dataset, made)

    def on_batch(self, batches: events.Batches, batch: Any) -> None:
        data = self._sources.get(batches.source)
        if data is not None:
            data.looks += 1
            data.met_last = data.met_last or data.last_index in batches.latest()

    def judge(self) -> Judgements:
        failures = read_notes(self.run.settings.records, "failure")
        notes = read_notes(self.run.settings.records)
        for key, data in self._data.items():
            data.last = self.run.steps
            own = [failure for failure in failures if failure["dataset"] == key]
            yield from self._collated(data, own, [note for note in notes if note["dataset"] == key])
            yield from self._indexed(data, own)
            yield from self._cached(data, [note for note in notes if note["dataset"] == key and note["worker"] >= 0])

    def _collated(self, data: _Data, failures: list[Any], notes: list[Any]) -> Judgements:
        ragged = [failure for failure in failures if failure["kind"] == "collate"]
        lost = sorted({key for note in notes for key in note.get("lost", [])})
        told = f"{data.looks} batches were made of samples that fit together"
        if ragged:
            told = f"no batch can be made of samples with {'; '.join(ragged[0]['parts'])}"
        elif lost:
            told = ", ".join(f"`{key}`" for key in lost)
            told += " is dropped, since the first sample of a batch does not have it"
        verdict = decided(ragged or lost, data.looks >= ENOUGH)
        yield self.judgement("DL406", data, verdict, told, alarm_if(ragged), failures=ragged, lost=lost)

    def _indexed(self, data: _Data, failures: list[Any]) -> Judgements:
        missing = [failure for failure in failures if failure["kind"] == "index"]
        if missing:
            told = f"a batch has an index that there is no sample for: {missing[0]['error']}"
            yield self.judgement("DL410", data, "CONFIRMED", told, failures=missing)
            return
        if data.met_last:
            yield self.judgement("DL410", data, "REFUTED")
        dataset, sources = data.dataset(), [source for source, known in self._sources.items() if known is data]
        is_over = self.run.ended_by in ("budget", "end") and threading.current_thread() is threading.main_thread()
        trains = any(batches.trained for source in sources for batches in source.passes)
        if not is_over or not trains or dataset is None or data.last_index < 1 or isinstance(dataset, IterableDataset):
            return
        with random_states_kept():
            first, broken = _asked(dataset, 0)
            if broken != "":
                return
            error = None if data.met_last else _asked(dataset, len(dataset) - 1)[1]
            if error is not None:
                yield self.judgement("DL410", data, decided(error, True), f"there is no last sample: {error}")
            yield from self._beyond(data, dataset, content_of(first))

    def _beyond(self, data: _Data, dataset: Any, first: str) -> Judgements:
        behind, error = _asked(dataset, len(dataset))
        if error is not None:
            wraps = not error and first == content_of(_asked(dataset, 0)[0]) == content_of(behind) != ""
            told = "the sample after the last is the first" if wraps else f"after the last: {error or 'another sample'}"
            yield self.judgement("DL409", data, decided(wraps, error), told)

    def _cached(self, data: _Data, notes: list[Any]) -> Judgements:
        for name in {name for note in notes for name in note.get("caches", {})}:
            sizes: dict[int, list[list[int]]] = defaultdict(list)  # by worker, around the first fetch of each pass
            for note in notes:
                sizes[note["worker"]].append(note.get("caches", {}).get(name, []))
            later = [(taken[0], each) for taken in sizes.values() if taken[0] for each in taken[1:]]
            again, thrown = len(later), sum(bool(each) and each[0] <= first[0] for first, each in later)
            found = {"cache": name, "sizes": {f"worker {worker}": taken for worker, taken in sizes.items()}}
            verdict = decided(again and thrown == again, again)
            yield self.judgement("DL412", data, verdict, thrown=thrown, again=again, **found)


def _asked(dataset: Any, index: int) -> tuple[Any, str | None]:
    """A sample, and the error if there is none for the index; None for another error, which says nothing."""
    try:
        return dataset[index], ""
    except Exception as error:
        return None, f"{type(error).__name__}: {error}" if is_of_sample(error) else None
