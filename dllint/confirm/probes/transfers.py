"""What becomes of a batch on its way from the loader to the model and the loss.

Where a tensor mostly arrives as it was made, and is all zeros at times, it is lost when it is moved: by hardware that
drops what one device sends to another, or because a buffer is used again before all of it has been copied.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from dllint.confirm.evidence import Judgement, Stack, Verdict, Voice
from dllint.confirm.probes.base import ENOUGH, Batches, LossCall, Probe, stack_of
from dllint.events import ModelForward

_FIRST = 200  # batches that are all looked at
_ELEMENTS = 1024  # of a tensor that are compared
_FEWEST = 4  # elements of a tensor
_RECENT = 3  # batches: some loaders are a batch ahead
_DEPTH = 3  # tuples and dicts in a batch
_MOSTLY = 0.8  # of the batches: as it was made

_Kind = tuple[Any, ...]  # shape and type


@dataclass(slots=True)
class _Path:
    """A part of the batches, and where it arrives."""

    name: str
    stack: Stack
    is_meant: bool  # it may be left out on purpose at times, as conditions are
    looks: int = 0
    same: int = 0
    lost: int = 0
    first: int = 0  # the step at which it was lost first
    last: int = 0


class Transfers(Probe):
    """Compares some numbers of each tensor when it is made with those when it arrives."""

    name = "transfers"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._batches = 0
        self._recent: deque[dict[_Kind, dict[str, float]]] = deque(maxlen=_RECENT)  # by kind, sums of tensors by name
        self._paths: dict[tuple[str, Stack], _Path] = {}

    def on_batch(self, batches: Batches, batch: Any) -> None:
        self._batches += 1
        if self._batches <= _FIRST or self._batches % self.run.every == 0:
            made: dict[_Kind, dict[str, float]] = {}
            for name, tensor in _tensors(batch, "", _DEPTH):
                made.setdefault(_kind(tensor), {})[name] = _total(tensor)
            self._recent.append(made)
        elif self._recent:
            self._recent.clear()

    def on_gap(self) -> None:
        self._recent.clear()

    def on_model_forward(self, event: ModelForward[Any]) -> None:
        named = event.arguments.keywords
        if self._recent and event.grad == "on":
            for name, value in [
                *(("", value) for value in event.arguments.positional),
                *((f"[{name!r}]", named[name]) for name in named),
            ]:
                if isinstance(value, Tensor):
                    self._arrives(value, name, stack_of(event), value.is_floating_point() or value.dim() < 2)

    def on_loss_call(self, call: LossCall) -> None:
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
        path = self._paths.get((name, stack))
        if path is None:
            path = self._paths[name, stack] = _Path(name, stack, is_meant)
        now = _total(value)
        path.looks += 1
        path.same += any(math.isclose(now, total) for total in totals)  # devices sum in their own orders
        if not now and not bool(value.any()):
            path.first = path.first if path.lost else self.run.steps
            path.lost += 1
            path.last = self.run.steps

    def judge(self) -> Iterator[Judgement]:
        untouched = [path for path in self._paths.values() if path.same >= max(ENOUGH, _MOSTLY * path.looks)]
        losers = sum(path.lost > 0 for path in untouched)
        for path in untouched:
            verdict: Verdict = "CONFIRMED" if path.lost else "REFUTED"
            voice: Voice = "note" if path.is_meant and losers == 1 else "alarm"
            yield Judgement(
                "batch-lost",
                self.name,
                verdict,
                f"`batch{path.name}` arrives as the loader has made it in {path.same} of {path.looks} batches, "
                f"and all zero in {path.lost} that were not",
                "all zero in any batch, where 0.8 of them and 3 or more arrive as they were made; none refutes",
                {"looks": path.looks, "same": path.same, "lost": path.lost},
                path.looks,
                (path.first, path.last),
                (path.stack,),
                voice,
            )


def _tensors(value: Any, name: str, depth: int) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a batch, by their place in it."""
    if isinstance(value, Tensor):
        if value.numel() >= _FEWEST:
            yield name or "[]", value
    elif depth and isinstance(value, (list, tuple)):
        for number, part in enumerate(value):
            yield from _tensors(part, f"{name}[{number}]", depth - 1)
    elif depth and hasattr(value, "items"):
        for key, part in value.items():
            yield from _tensors(part, f"{name}[{key!r}]", depth - 1)


def _kind(tensor: Tensor) -> _Kind:
    return (*tensor.shape, tensor.dtype)


def _total(tensor: Tensor) -> float:
    """The sum of some elements, without their signs; where it is 0, so are they."""
    flat = tensor.detach().reshape(-1)
    return float(flat[:: max(1, flat.numel() // _ELEMENTS)].abs().double().sum())
