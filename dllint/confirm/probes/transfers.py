"""What becomes of a batch on its way from the loader to the model and the loss.

Where a tensor mostly arrives as it was made, and is all zeros at times, it is lost when it is moved: by hardware that
drops what one device sends to another, or because a buffer is used again before all of it has been copied.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

from dllint.confirm.inside.parts import leaves, some
from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, Stack, Tensor, alarm_if, decided, events
from dllint.confirm.probes.events import stack_of

_FIRST = 200  # batches that are all looked at
_ELEMENTS = 1024  # of a tensor that are compared
_FEWEST = 4  # elements of a tensor
_RECENT = 3  # batches: some loaders are a batch ahead
_DEPTH = 3  # tuples and dicts in a batch
_MOSTLY = 0.8  # of the batches: as it was made

_Kind = tuple[Any, ...]  # shape and type


class _Path(Samples):
    """A part of the batches, and where it arrives; wrong are those that were lost."""

    is_meant: bool = False  # it may be left out on purpose at times, as conditions are
    same: int = 0
    lost: tuple[int, int] = (0, 0)  # the steps at which it was lost first and last


class Transfers(PlaceProbe[_Path]):
    _recent: deque[dict[_Kind, dict[str, float]]] = deque(maxlen=_RECENT)  # by kind, sums of tensors by name

    def on_batch(self, batches: events.Batches, batch: Any) -> None:
        if self.is_next_sampled("batch", _FIRST):
            made: dict[_Kind, dict[str, float]] = {}
            for name, tensor in leaves(batch, _DEPTH):
                if isinstance(tensor, Tensor) and tensor.numel() >= _FEWEST:
                    made.setdefault(_kind(tensor), {})[name or "[]"] = _total(tensor)
            self._recent.append(made)
        elif self._recent:
            self._recent.clear()

    def on_gap(self) -> None:
        self._recent.clear()

    def on_model_forward(self, event: events.ModelForward) -> None:
        named = event.arguments.keywords
        if self._recent and event.grad == "on":
            unnamed = [("", value) for value in event.arguments.positional]
            for name, value in [*unnamed, *((f"[{name!r}]", named[name]) for name in named)]:
                if isinstance(value, Tensor):
                    self._arrives(value, name, stack_of(event), value.is_floating_point() or value.dim() < 2)

    def on_loss_call(self, call: events.LossCall) -> None:
        if self._recent and call.result.requires_grad:
            self._arrives(call.target, "", stack_of(call), False)

    def _arrives(self, value: Tensor, name: str, stack: Stack, is_meant: bool) -> None:
        """Compare a tensor with those of batches that have its name, or with the only ones of its kind."""
        if not value.numel():
            return
        kind = _kind(value)
        alike = [made[kind] for made in self._recent if kind in made]
        if not all(name in made for made in alike):
            name = next(iter(alike[0])) if all(len(made) == 1 for made in alike) else ""
        totals = [made[name] for made in alike if name in made]
        if not totals or not all(totals):
            return
        path = self.at(name, stack)
        now = _total(value)
        is_lost = not now and not bool(value.any())
        path.is_meant = is_meant
        path.same += any(math.isclose(now, total) for total in totals)  # devices sum in their own orders
        if is_lost:
            path.lost = (path.lost[0] if path.wrong else self.run.steps, self.run.steps)
        path.count(is_lost)

    def judge(self) -> Judgements:
        untouched = [path for path in self.noted() if path.same >= max(ENOUGH, _MOSTLY * path.looks)]
        losers = sum(path.wrong > 0 for path in untouched)
        for path in untouched:
            path.first, path.last = path.lost
            voice = alarm_if(not path.is_meant or losers != 1)
            yield self.judgement("batch-lost", path, decided(path.wrong, True), "", voice, part=path.place[0])


def _kind(tensor: Tensor) -> _Kind:
    return (*tensor.shape, tensor.dtype)


def _total(tensor: Tensor) -> float:
    """The sum of some elements, without their signs; where it is 0, so are they."""
    return float(some(tensor, _ELEMENTS).abs().double().sum())
