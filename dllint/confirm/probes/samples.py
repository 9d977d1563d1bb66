"""DL406, DL409, DL410 and DL412: samples that do not fit together, indices that are answered though they should not be
or refused though they should not be, and caches that are filled for nothing.

Workers note what fails in them, and what their datasets keep. The last sample and the one behind it are asked for when
the run is over, of training data that still exists, unless the run has come to them itself.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, ref

from torch.utils.data import IterableDataset

from dllint.confirm.evidence import Judgement, Stack, Verdict, Voice
from dllint.confirm.inside.samples import is_of_sample
from dllint.confirm.inside.workers import content_of, key_of, read_notes
from dllint.confirm.probes.base import ENOUGH, Batches, Probe
from dllint.confirm.probes.random_states import random_states_kept

_MOST = 20  # datasets


@dataclass(slots=True)
class _Data:
    """What the run has taken from a dataset."""

    dataset: Any  # a reference to it
    made: Stack  # the first loader
    last: int  # index; -1 where there is none
    batches: int = 0
    trains: bool = False
    met_last: bool = False


class Samples(Probe):
    """Reads what workers have noted, and asks for two samples at the end."""

    name = "samples"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._data: dict[str, _Data] = {}
        self._by_loader: WeakKeyDictionary[Any, _Data] = WeakKeyDictionary()
        self._latest: _Data | None = None

    def on_pass(self, batches: Batches) -> None:
        loader = batches.loader
        if loader is not None and loader not in self._by_loader and len(self._data) < _MOST:
            made = _Data(_reference(loader.dataset), batches.made, _last(loader.dataset))
            self._by_loader[loader] = self._data.setdefault(key_of(loader.dataset), made)

    def on_batch(self, batches: Batches, batch: Any) -> None:
        loader = batches.loader
        data = self._latest = self._by_loader.get(loader) if loader is not None else None
        if data is not None:
            data.batches += 1
            if not data.met_last and batches.taken <= len(batches.indices):
                index = batches.indices[batches.taken - 1]
                data.met_last = data.last in index if isinstance(index, list) else data.last == index

    def before_backward(self, call: Any) -> None:
        if self._latest is not None:
            self._latest.trains = True
            self._latest = None

    def judge(self) -> Iterator[Judgement]:
        failures = read_notes(self.run.settings.records, "failure")
        notes = read_notes(self.run.settings.records)
        for key, data in self._data.items():
            own = [failure for failure in failures if failure["dataset"] == key]
            yield from self._collated(data, own, [note for note in notes if note["dataset"] == key])
            yield from self._indexed(data, own)
            yield from self._cached(data, [note for note in notes if note["dataset"] == key and note["worker"] >= 0])

    def _collated(self, data: _Data, failures: list[Any], notes: list[Any]) -> Iterator[Judgement]:
        """DL406."""
        ragged = [failure for failure in failures if failure["kind"] == "collate"]
        lost = sorted({key for note in notes for key in note.get("lost", [])})
        if ragged:
            what, voice = f"no batch can be made of samples with {'; '.join(ragged[0]['parts'])}", "alarm"
        elif lost:
            told = ", ".join(f"`{key}`" for key in lost)
            what, voice = f"{told} is dropped, since the first sample of a batch does not have it", "note"
        else:
            what, voice = f"{data.batches} batches were made of samples that fit together", ""
        verdict: Verdict = "CONFIRMED" if ragged or lost else "REFUTED" if data.batches >= ENOUGH else "INCONCLUSIVE"
        found = {"failures": ragged, "lost": lost, "batches": data.batches}
        threshold = "samples of other shapes, or with other keys than the first; 3 batches without refute"
        yield self._judgement("DL406", verdict, what, threshold, found, data, voice)  # type: ignore[arg-type]

    def _indexed(self, data: _Data, failures: list[Any]) -> Iterator[Judgement]:
        """DL409 and DL410."""
        threshold = "an index below the length that there is no sample for; the last sample refutes"
        missing = [failure for failure in failures if failure["kind"] == "index"]
        if missing:
            what = f"a batch has an index that there is no sample for: {missing[0]['error']}"
            yield self._judgement("DL410", "CONFIRMED", what, threshold, {"failures": missing}, data, "alarm")
            return
        if data.met_last:
            yield self._judgement("DL410", "REFUTED", "the last sample was taken", threshold, {}, data, "alarm")
        dataset = data.dataset()
        is_over = self.run.ended_by in ("budget", "end") and threading.current_thread() is threading.main_thread()
        if not is_over or not data.trains or dataset is None or not _has_samples(dataset):
            return
        with random_states_kept():
            first, broken = _asked(dataset, 0)
            if broken != "":
                return
            if not data.met_last:
                yield from self._last(data, *_asked(dataset, len(dataset) - 1)[1:], threshold)
            yield from self._beyond(data, dataset, content_of(first))

    def _last(self, data: _Data, error: str | None, threshold: str) -> Iterator[Judgement]:
        """DL410, by asking for the last sample."""
        if error is not None:
            what = f"there is no last sample: {error}" if error else "there is a last sample"
            verdict: Verdict = "CONFIRMED" if error else "REFUTED"
            yield self._judgement("DL410", verdict, what, threshold, {"error": error}, data, "alarm")

    def _beyond(self, data: _Data, dataset: Any, first: str) -> Iterator[Judgement]:
        """DL409."""
        behind, error = _asked(dataset, len(dataset))
        if error is None:
            return
        wraps = not error and first == content_of(_asked(dataset, 0)[0]) == content_of(behind) != ""
        yield self._judgement(
            "DL409",
            "CONFIRMED" if wraps else "REFUTED" if error else "INCONCLUSIVE",
            "the sample after the last is the first" if wraps else f"after the last: {error or 'another sample'}",
            "the first sample for the index after the last; an IndexError refutes",
            {"error": error},
            data,
            "note",
        )

    def _cached(self, data: _Data, notes: list[Any]) -> Iterator[Judgement]:
        """DL412."""
        names = {name for note in notes for name in note.get("caches", {})}
        for name in names:
            sizes: dict[int, list[list[int]]] = defaultdict(
                list
            )  # by worker, before and after the first fetch of passes
            for note in notes:
                sizes[note["worker"]].append(note.get("caches", {}).get(name, []))
            later = [(taken[0], each) for taken in sizes.values() if taken[0] for each in taken[1:]]
            again, thrown = len(later), sum(bool(each) and each[0] <= first[0] for first, each in later)
            yield self._judgement(
                "DL412",
                "INCONCLUSIVE" if not again else "CONFIRMED" if thrown == again else "REFUTED",
                f"`{name}` is filled in workers, and was empty again when {thrown} of {again} later passes began",
                "empty at the beginning of all later passes in all workers; else refuted",
                {"cache": name, "sizes": {f"worker {worker}": taken for worker, taken in sizes.items()}},
                data,
                "note",
            )

    def _judgement(
        self,
        rule: str,
        verdict: Verdict,
        what: str,
        threshold: str,
        found: dict[str, Any],
        data: _Data,
        voice: Voice,
    ) -> Judgement:
        steps = (0, self.run.steps)
        return Judgement(rule, self.name, verdict, what, threshold, found, data.batches, steps, (data.made,), voice)


def _reference(dataset: Any) -> Any:
    """A way to a dataset that does not keep it alive."""
    try:
        return ref(dataset)
    except TypeError:  # a list, for instance
        return lambda: None


def _last(dataset: Any) -> int:
    return len(dataset) - 1 if hasattr(dataset, "__len__") else -1


def _has_samples(dataset: Any) -> bool:
    return not isinstance(dataset, IterableDataset) and hasattr(dataset, "__len__") and len(dataset) > 1


def _asked(dataset: Any, index: int) -> tuple[Any, str | None]:
    """A sample, and the error if there is none for the index; None for another error, which says nothing."""
    try:
        return dataset[index], ""
    except Exception as error:
        is_lookup = isinstance(error, (IndexError, KeyError)) and is_of_sample(error)
        return None, f"{type(error).__name__}: {error}" if is_lookup else None
