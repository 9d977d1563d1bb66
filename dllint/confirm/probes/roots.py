"""What backward passes come from: a loss that no model is behind, or that was built without gradients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import ENOUGH, BackwardCall, Probe, stack_of

_SMALL = 16  # elements: a tensor that holds losses; inputs that are optimized themselves are larger


@dataclass(slots=True)
class _Calls:
    """Backward passes from one place whose graph was looked at."""

    good: int = 0
    detached: int = 0  # from a tensor that needs no gradients
    laundered: int = 0  # from tensors made of numbers
    first: int = 0
    last: int = 0


class Roots(Probe):
    """DL205 and DL206."""

    name = "roots"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._calls: dict[Stack, _Calls] = {}

    def before_backward(self, call: BackwardCall) -> None:
        calls = self._calls.setdefault(stack_of(call), _Calls(first=self.run.steps))
        calls.last = self.run.steps
        if not any(root.requires_grad for root in call.roots):
            calls.detached += 1
        elif call.leaves is not None:
            if self._is_laundered(call.leaves):
                calls.laundered += 1
            else:
                calls.good += 1

    def _is_laundered(self, leaves: list[Tensor]) -> bool:
        held = {id(p) for tracked in self.run.gradients.tracked for p in tracked.parameters()}
        return all(
            not isinstance(leaf, nn.Parameter) and id(leaf) not in held and leaf.numel() <= _SMALL for leaf in leaves
        )

    def judge(self) -> Iterator[Judgement]:
        for stack, calls in self._calls.items():
            total = calls.good + calls.detached + calls.laundered
            facts = (
                ("DL205", calls.detached, 1, "went back from a tensor that was computed with gradients off"),
                ("DL206", calls.laundered, ENOUGH, "ended at numbers instead of parameters"),
            )
            for rule, wrong, needed, what in facts:
                refuted = calls.good >= ENOUGH and not wrong
                yield Judgement(
                    rule,
                    self.name,
                    "CONFIRMED" if wrong >= needed else "REFUTED" if refuted else "INCONCLUSIVE",
                    f"{wrong} of {total} backward passes {what}",
                    f"{needed} or more; none of 3 refutes",
                    {"wrong": wrong, "looked_at": total},
                    total,
                    (calls.first, calls.last),
                    (stack,),
                    "alarm",
                )
