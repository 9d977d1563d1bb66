"""DL110: a metric that counts what the loss ignores.

Metrics are modules with ``update`` and ``compute``, as those of torchmetrics are. One that is given targets of the
class that the loss ignores, and ignores none or another, tells of another task than the one that is trained. Compares
the targets that metrics count with those that the loss ignores; wrong are calls that count such.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, Tensor, alarm_if, events, nn, repeated
from dllint.confirm.probes.events import Stack, stack_of


class Metrics(PlaceProbe[Samples]):
    _ignored: Counter[int] = Counter()  # by class, the calls of losses that ignored some

    def on_loss_call(self, call: events.LossCall) -> None:
        ignored = call.options.get("ignore_index")
        if not isinstance(ignored, int) or call.target.is_floating_point():
            return
        if self.is_next_sampled(stack_of(call), self.at_first):
            self._ignored[ignored] += bool((call.target == ignored).any())

    def on_call_aside(self, module: nn.Module, inputs: Any, named: Any, stack: Stack) -> None:
        kind = type(module)
        if "ignore_index" not in vars(module) or not hasattr(kind, "update") or not hasattr(kind, "compute"):
            return
        given = vars(module)["ignore_index"]
        ignores = given if isinstance(given, int) else None
        seen = self.sample(stack, ignores)
        target = named.get("target", inputs[1] if len(inputs) > 1 else None)
        if seen is not None and isinstance(target, Tensor):
            seen.what = kind.__name__
            seen.count(any(index != ignores and bool((target == index).any()) for index in self._common()))

    def _common(self) -> list[int]:
        """The classes that losses ignore often enough."""
        return [index for index, calls in self._ignored.items() if calls >= ENOUGH]

    def judge_each(self, seen: Samples) -> Judgements:
        ignored, own = self._common(), seen.place[1]
        if ignored and seen.looks >= ENOUGH:
            found = {"ignores": "none" if own is None else f"class {own}", "losses": ignored}
            yield self.judgement("DL110", seen, repeated(seen.wrong), "", alarm_if(own is not None), **found)
