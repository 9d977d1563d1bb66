"""DL110: a metric that counts what the loss ignores.

Metrics are modules with ``update`` and ``compute``, as those of torchmetrics are. One that is given targets of the
class that the loss ignores, and ignores none or another, tells of another task than the one that is trained.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import ENOUGH, LossCall, Probe, stack_of

_FIRST = 10  # calls from each place that are looked at


@dataclass(slots=True)
class _Metric:
    """The calls of a metric from one place."""

    name: str
    ignores: int | None
    calls: int = 0
    looked: int = 0
    counted: int = 0  # those whose targets had the class that the loss ignores
    first: int = 0
    last: int = 0


class Metrics(Probe):
    """Compares the targets that metrics count with those that the loss ignores."""

    name = "metrics"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._calls: dict[Stack, int] = {}
        self._ignored: dict[int, int] = {}  # by class, the calls of losses that ignored some
        self._seen: dict[tuple[Stack, int | None], _Metric] = {}

    def on_loss_call(self, call: LossCall) -> None:
        ignored = call.options.get("ignore_index")
        if not isinstance(ignored, int) or call.target.is_floating_point():
            return
        calls = self._calls[stack_of(call)] = self._calls.get(stack_of(call), 0) + 1
        if calls <= _FIRST or calls % self.run.every == 0:
            found = bool((call.target == ignored).any())
            self._ignored[ignored] = self._ignored.get(ignored, 0) + found

    def on_call_aside(self, module: nn.Module, inputs: Any, named: Any, stack: Stack) -> None:
        kind = type(module)
        if "ignore_index" not in vars(module) or not hasattr(kind, "update") or not hasattr(kind, "compute"):
            return
        given = vars(module)["ignore_index"]
        ignores = given if isinstance(given, int) else None
        seen = self._seen.get((stack, ignores))
        if seen is None:
            seen = self._seen[stack, ignores] = _Metric(type(module).__name__, ignores, first=self.run.steps)
        seen.calls += 1
        target = named.get("target", inputs[1] if len(inputs) > 1 else None)
        if not isinstance(target, Tensor) or (seen.calls > _FIRST and seen.calls % self.run.every):
            return
        seen.looked += 1
        seen.last = self.run.steps
        common = [index for index, calls in self._ignored.items() if calls >= ENOUGH]
        seen.counted += any(index != ignores and bool((target == index).any()) for index in common)

    def judge(self) -> Iterator[Judgement]:
        ignored = [index for index, calls in self._ignored.items() if calls >= ENOUGH]
        for (stack, _), seen in self._seen.items():
            if not ignored or seen.looked < ENOUGH:
                continue
            other = "none" if seen.ignores is None else f"class {seen.ignores}"
            yield Judgement(
                "DL110",
                self.name,
                "CONFIRMED" if seen.counted >= ENOUGH else "INCONCLUSIVE" if seen.counted else "REFUTED",
                f"{seen.name} ignores {other}, and counted targets that the loss ignores (class "
                f"{', '.join(map(str, ignored))}) in {seen.counted} of {seen.looked} calls",
                "in 3 or more calls; in none of 3 refutes",
                {"counted": seen.counted, "sampled": seen.looked, "metric": seen.ignores, "losses": ignored},
                seen.looked,
                (seen.first, seen.last),
                (stack,),
                "note" if seen.ignores is None else "alarm",
            )
