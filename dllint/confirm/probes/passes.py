"""DL415: whether loaders shuffle, and repeat themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from torch.utils.data import IterableDataset, RandomSampler

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.inside.workers import key_of
from dllint.confirm.pictures import Order
from dllint.confirm.probes.base import Batches, Probe
from dllint.confirm.probes.order import distributed_sampler
from dllint.events import ModelForward

_FEWEST = 3  # batches of a pass that can be compared
_SHOWN = 64  # samples of a pass that the report draws
_MOST = 20  # passes of a loader


@dataclass(slots=True)
class _Pass:
    """One pass over a loader: the indices that were drawn, how many batches were taken, whether gradients followed."""

    number: int
    indices: list[Any]
    taken: int = 0
    trains: bool = False

    def order(self) -> list[list[Any]]:
        """The samples of each batch that was taken."""
        return [_flat(index) for index in self.indices[: self.taken]]


@dataclass(slots=True)
class _Loader:
    """A loader, which may be gone when the run ends."""

    name: str
    shuffles: bool
    made: Stack
    passes: list[_Pass] = field(default_factory=list)


class Passes(Probe):
    """Compares the passes over each loader that gradients follow."""

    name = "passes"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._loaders: list[_Loader] = []
        self._known: WeakKeyDictionary[Any, _Loader] = WeakKeyDictionary()
        self._latest: _Pass | None = None

    def on_batch(self, batches: Batches, batch: Any) -> None:
        source = batches.loader
        if source is None:
            return
        loader = self._known.get(source)
        if loader is None:
            loader = self._known[source] = _Loader(key_of(source.dataset), _shuffles(source), batches.made)
            is_known = not isinstance(source.dataset, IterableDataset)
            if is_known and distributed_sampler(source) is None:  # which has a rule of its own
                self._loaders.append(loader)
        if batches.number >= _MOST:
            return
        if not loader.passes or loader.passes[-1].number != batches.number:
            loader.passes.append(_Pass(batches.number, batches.indices))
        loader.passes[-1].taken = batches.taken
        self._latest = loader.passes[-1]

    def on_model_forward(self, event: ModelForward[Any]) -> None:
        if event.grad != "on":  # what was taken is evaluated
            self._latest = None

    def before_backward(self, call: Any) -> None:
        if self._latest is not None:
            self._latest.trains = True
            self._latest = None

    def judge(self) -> Iterator[Judgement]:
        for loader in self._loaders:
            loader.passes = [each for each in loader.passes if each.trains]
            for each in loader.passes:
                first = [index for batch in each.order() for index in batch][:_SHOWN]
                if all(isinstance(index, int) for index in first):
                    self.run.pictures.orders.append(Order(loader.name, each.number, first))
            yield from _unshuffled(loader, self.run.steps)
            yield from _repeated(loader, self.run.steps)


def _shuffles(loader: Any) -> bool:
    sampler = getattr(loader.batch_sampler, "sampler", loader.sampler)
    return isinstance(sampler, RandomSampler)


def _flat(index: Any) -> list[Any]:
    return list(index) if isinstance(index, (list, tuple)) else [index]


def _is_sequential(order: list[list[Any]]) -> bool:
    flat = [index for batch in order for index in batch]
    return flat == list(range(len(flat)))


def _unshuffled(loader: _Loader, steps: int) -> Iterator[Judgement]:
    name = loader.name
    long = [order for order in (each.order() for each in loader.passes) if len(order) >= _FEWEST]
    in_order = sum(_is_sequential(order) for order in long)
    if long:
        yield Judgement(
            "DL415",
            "passes",
            "CONFIRMED" if in_order == len(long) else "REFUTED" if not in_order else "INCONCLUSIVE",
            f"{in_order} of {len(long)} passes over {name} take the samples in the order they are stored in",
            "all passes of 3 or more batches; none refutes",
            {"passes": len(long), "in_order": in_order, "dataset": name},
            len(long),
            (0, steps),
            (loader.made,),
            "note",
        )


def _repeated(loader: _Loader, steps: int) -> Iterator[Judgement]:
    """Passes that are in no natural order, and all the same."""
    name = loader.name
    orders = [each.order() for each in loader.passes]
    common = min((len(order) for order in orders), default=0)
    starts = [order[:common] for order in orders]
    if len(orders) < 2 or common < _FEWEST or any(_is_sequential(start) for start in starts):
        return
    distinct = len({repr(start) for start in starts})
    yield Judgement(
        "same-order-every-epoch",
        "passes",
        "CONFIRMED" if distinct < len(orders) else "REFUTED",
        f"{distinct} distinct orders in {len(orders)} passes over {name}",
        "the same shuffled order in two passes; all distinct refutes",
        {"passes": len(orders), "distinct": distinct, "batches": common, "dataset": name},
        len(orders),
        (0, steps),
        (loader.made,),
        "alarm" if loader.shuffles else "note",
    )
