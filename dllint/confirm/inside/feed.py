"""What the script takes from its loaders, and what it does with that: whether it trains or evaluates with a batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from dllint.confirm.evidence import Stack
from dllint.confirm.inside.workers import key_of

_MOST = 50  # passes over a loader that are remembered
_INSIDE = 5  # samplers inside of samplers


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
    """A data loader, which may be gone when the run ends: where it was ``made``, what its ``dataset`` is known by, and
    the first ``passes`` over it."""

    owner: ReferenceType[Any]
    made: Stack
    dataset: str
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

    @property
    def made(self) -> Stack:
        """Where the loader was made."""
        return self.source.made

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
        if number < _MOST:
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
