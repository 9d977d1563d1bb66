"""What backward passes come from: a loss that no model is behind, or that was built without gradients."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import ENOUGH, BackwardCall, PlaceProbe, Samples, stack_of

_SMALL = 16  # elements: a tensor that holds losses; inputs that are optimized themselves are larger


@dataclass(slots=True, eq=False)
class _Passes(Samples):
    """Backward passes from one place whose graph was looked at."""

    good: int = 0
    detached: int = 0  # from a tensor that needs no gradients
    laundered: int = 0  # from tensors made of numbers


class Roots(PlaceProbe[_Passes]):
    """DL205 and DL206."""

    name = "roots"
    samples = _Passes

    def before_backward(self, call: BackwardCall) -> None:
        calls = self.at(stack_of(call))
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

    def judge_place(self, place: Stack, seen: _Passes) -> Iterator[Judgement]:
        seen.looks = seen.good + seen.detached + seen.laundered
        facts = (
            ("DL205", seen.detached, 1, "went back from a tensor that was computed with gradients off"),
            ("DL206", seen.laundered, ENOUGH, "ended at numbers instead of parameters"),
        )
        for rule, wrong, needed, what in facts:
            refuted = seen.good >= ENOUGH and not wrong
            yield self.judgement(
                rule,
                place,
                seen,
                "CONFIRMED" if wrong >= needed else "REFUTED" if refuted else "INCONCLUSIVE",
                f"{wrong} of {seen.looks} backward passes {what}",
                f"{needed} or more; none of 3 refutes",
                {"wrong": wrong, "looked_at": seen.looks},
            )
