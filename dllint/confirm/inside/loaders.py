"""Observes data loaders, and ends their passes early, so that code at the end of epochs is reached; keeps what the
script takes from them, and what it does with that: whether it trains or evaluates with a batch."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType, WeakKeyDictionary, ref

import torch
from torch.utils.data import dataloader

from dllint.confirm.evidence import Stack
from dllint.confirm.inside.patching import observe, replace
from dllint.confirm.inside.stacks import stack
from dllint.confirm.inside.workers import key_of, observe_fetching
from dllint.dataclass import dataclass

if TYPE_CHECKING:
    from dllint.confirm.inside.run import Run

_Iterator = dataloader._BaseDataLoaderIter
_MOST_BATCHES = 16  # of a pass that are kept for an experiment
_MOST_INDICES = 1000  # batches of a pass whose indices are kept
_MOST_PASSES = 50  # passes over a loader that are remembered
_INSIDE = 5  # samplers inside of samplers


def observe_all(run: Run) -> None:
    """Observe passes over loaders, batch by batch."""
    passes: WeakKeyDictionary[Any, Batches] = WeakKeyDictionary()
    kept: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # the loader of a pass, which may know no other owner
    places: WeakKeyDictionary[Any, Stack] = WeakKeyDictionary()  # where each loader was made

    def constructed(_: None, loader: Any, *__: Any, **___: Any) -> None:
        places[loader] = stack()
        run.see("loader", places[loader])

    latest: list[Batches] = []
    taken_from: set[Stack] = set()  # loaders that were made there

    def begins(iterator: Any, loader: Any) -> None:
        is_other = not latest or latest[0].loader is not loader
        if places.get(loader, ()) not in taken_from:
            taken_from.add(places.get(loader, ()))
            run.look_at_new()
        elif is_other and run.rests.are_on and run.rests.may_be_disturbed():
            run.wake()  # an evaluation may begin
        latest[:] = [run.feed.begin(loader, places.get(loader, ()))]
        passes[iterator] = latest[0]
        if not getattr(loader, "persistent_workers", False):  # which would never be given up for its own passes
            kept[iterator] = loader
        run.see("batches", places.get(loader, ()))
        run.epochs += 1
        run.mark("epoch")
        run.tell("pass", passes[iterator])

    def begins_again(_: None, iterator: Any, loader: Any, first_iter: bool = False) -> None:
        if not first_iter:
            begins(iterator, loader)

    def drawn(index: Any, iterator: Any) -> None:
        indices = passes[iterator].indices if iterator in passes else None
        if indices is not None and isinstance(index, (list, int)) and len(indices) < _MOST_INDICES:
            indices.append(index)

    observe(run, dataloader.DataLoader, "__init__", after=constructed)
    observe(run, _Iterator, "__init__", after=lambda _, iterator, loader: begins(iterator, loader))
    observe(run, _Iterator, "_reset", after=begins_again)
    observe(run, _Iterator, "_next_index", after=drawn)
    _end_early(run, passes)
    observe_fetching(run.settings.records)


def _end_early(run: Run, passes: WeakKeyDictionary[Any, Batches]) -> None:
    kept: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()  # by loader, the batch that is given again and again
    # by pass that trains: the steps when it began, and its first batches, which are given again where it is too short
    taken: WeakKeyDictionary[Any, tuple[int, deque[Any]]] = WeakKeyDictionary()

    def following(advance: Any, iterator: Any) -> Any:
        run.refuse_to_go_on()
        batches = passes.get(iterator)
        limit = run.settings.epoch_batches
        if batches is not None and limit and batches.taken >= limit:
            raise StopIteration
        loader = batches.loader if batches is not None and run.settings.mode == "overfit" else None
        is_frozen = loader is not None and torch.is_grad_enabled()
        if is_frozen and loader in kept:
            return copy.deepcopy(kept[loader])
        try:
            batch = advance(iterator)
        except StopIteration:
            if iterator in taken and run.steps > taken[iterator][0]:
                taken[iterator][1].rotate(-1)
                return copy.deepcopy(taken[iterator][1][0])
            if batches is not None and run.is_listening:
                run.guard(run.tell, "pass_end", batches)
            raise
        except Exception as error:
            if batches is not None and run.is_listening:
                run.guard(run.tell, "batch_refused", batches, error)
            raise
        if batches is not None and run.is_listening:
            batches.taken += 1
            if not run.rests.are_on:
                run.feed.take(batches)
                run.guard(run.tell, "batch", batches, batch)
            if is_frozen:
                run.guard(keep, loader, batch)
            if run.settings.mode == "lr-range" and torch.is_grad_enabled():
                run.guard(keep_first, iterator, batch)
        return batch

    def keep_first(iterator: Any, batch: Any) -> None:
        first = taken.setdefault(iterator, (run.steps, deque()))[1]
        first.extend([copy.deepcopy(batch)] if len(first) < _MOST_BATCHES else [])

    def keep(loader: Any, batch: Any) -> None:
        kept[loader] = copy.deepcopy(batch)
        run.frozen_batches = len(kept)

    replace(_Iterator, "__next__", following)


def samplers_of(loader: Any) -> Iterator[Any]:
    """The samplers of a loader, each inside of the one before."""
    sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler  # which may have no length
    for _ in range(_INSIDE):
        if sampler is None:
            return
        yield sampler
        inner = getattr(sampler, "batch_sampler", None)
        sampler = getattr(sampler, "sampler", None) if inner is None else inner


@dataclass(slots=True, eq=False)
class Source:
    """A data loader, which may be gone when the run ends: where it was ``made``, and the first ``passes`` over it."""

    owner: ReferenceType[Any]
    made: Stack
    dataset: str  # what that is known by
    passes: list[Batches] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Batches:
    """One pass over a data loader."""

    source: Source
    number: int  # of the pass over this loader, from 0
    taken: int = 0  # batches, so far
    indices: list[Any] = field(default_factory=list)  # of the first batches, with those that workers are still making
    trained: int = 0  # batches that a backward pass has followed
    only_trained: int = 0  # those of them with no call of a model without gradients before that
    is_evaluated: bool = False  # a model was called without gradients after some batch

    @property
    def loader(self) -> Any:
        """The loader; None where it owns what iterates over it, and is gone all the same."""
        return self.source.owner()

    def order(self) -> list[list[Any]]:
        """The samples of each batch that was taken."""
        return [list(index) if isinstance(index, (list, tuple)) else [index] for index in self.indices[: self.taken]]

    def latest(self) -> list[Any]:
        """The samples of the batch that was taken last; none where they are not known."""
        index = self.indices[self.taken - 1] if 0 < self.taken <= len(self.indices) else []
        return index if isinstance(index, list) else [index]


class Feed:
    """The loaders, in the order of their first passes, and the batch that was taken last."""

    def __init__(self) -> None:
        self.sources: list[Source] = []
        self._by_loader: WeakKeyDictionary[Any, Source] = WeakKeyDictionary()
        self._numbers: WeakKeyDictionary[Any, int] = WeakKeyDictionary()
        self._latest: Batches | None = None
        self._waits = self._is_plain = False  # for a backward pass; no model was called without gradients

    def begin(self, loader: Any, made: Stack) -> Batches:
        """Note that a pass begins."""
        source = self._by_loader.get(loader)
        if source is None:
            source = self._by_loader[loader] = Source(ref(loader), made, key_of(loader.dataset))
            self.sources.append(source)
        number = self._numbers[loader] = self._numbers.get(loader, -1) + 1
        batches = Batches(source, number)
        if number < _MOST_PASSES:
            source.passes.append(batches)
        return batches

    def take(self, batches: Batches) -> None:
        """Note that a batch has been taken."""
        self._latest = batches
        self._waits = self._is_plain = True

    def evaluate(self) -> None:
        """Note that a model is called without gradients."""
        self._is_plain = False
        if self._latest is not None:
            self._latest.is_evaluated = True

    def train(self) -> Batches | None:
        """Note a backward pass. Returns the pass over a loader whose latest batch it is the first to follow."""
        batches = self._latest if self._waits else None
        if batches is not None:
            batches.trained += 1
            batches.only_trained += self._is_plain
        self._waits = False
        return batches
