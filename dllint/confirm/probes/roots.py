"""What backward passes come from: a loss that no model is behind, or that was built without gradients."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, decided
from dllint.confirm.probes.events import BackwardCall, stack_of

_SMALL = 16  # elements: a tensor that holds losses; inputs that are optimized themselves are larger


@dataclass(slots=True, eq=False)
class _Passes(Samples):
    """Backward passes from one place whose graph was looked at."""

    good: int = 0
    detached: int = 0  # from a tensor that needs no gradients
    laundered: int = 0  # from tensors made of numbers


class Roots(PlaceProbe[_Passes]):
    def before_backward(self, call: BackwardCall) -> None:
        calls = self.at(stack_of(call))
        if not any(root.requires_grad for root in call.roots):
            calls.detached += 1
        elif call.leaves is not None:
            is_laundered = self._is_laundered(call.leaves)
            calls.laundered += is_laundered
            calls.good += not is_laundered

    def _is_laundered(self, leaves: list[Tensor]) -> bool:
        held = {id(p) for tracked in self.run.gradients.tracked for p in tracked.parameters()}
        return all(
            not isinstance(leaf, nn.Parameter) and id(leaf) not in held and leaf.numel() <= _SMALL for leaf in leaves
        )

    def judge_each(self, seen: _Passes) -> Judgements:
        seen.looks = seen.good + seen.detached + seen.laundered
        for rule, wrong, needed in (("DL205", seen.detached, 1), ("DL206", seen.laundered, ENOUGH)):
            yield self.judgement(rule, seen, decided(wrong >= needed, seen.good >= ENOUGH and not wrong))
