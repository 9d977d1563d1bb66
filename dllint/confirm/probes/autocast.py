"""The types that products are computed in under autocast."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, decided
from dllint.confirm.probes.events import BackwardCall, ModelForward, stack_of
from dllint.confirm.probes.graph import nodes
from dllint.confirm.probes.scaling import autocast_types

_OPERANDS = {
    "AddmmBackward0": "_saved_mat1",
    "MmBackward0": "_saved_self",
    "BmmBackward0": "_saved_self",
    "ConvolutionBackward0": "_saved_input",
}
_LOW = (torch.float16, torch.bfloat16)


@dataclass(slots=True, eq=False)
class _Products(Samples):
    """The matrix products behind the backward passes from one place."""

    low: int = 0
    full: int = 0  # in full precision


class Autocast(PlaceProbe[_Products]):
    def begin(self) -> None:
        self._is_on = False

    def on_model_forward(self, event: ModelForward) -> None:
        self._is_on = event.grad == "on" and bool(autocast_types())

    def before_backward(self, call: BackwardCall) -> None:
        seen = self.at(stack_of(call))
        if not self._is_on or self.run.packs or seen.calls > ENOUGH:
            return
        self._is_on = False
        for node in nodes(call.roots):
            operand = getattr(node, _OPERANDS.get(node.name(), ""), None)
            if operand is not None and operand.is_floating_point():
                seen.low += operand.dtype in _LOW
                seen.full += operand.dtype not in _LOW

    def judge_each(self, seen: _Products) -> Judgements:
        if products := seen.low + seen.full:
            seen.looks = min(seen.calls, ENOUGH)
            is_enough = seen.looks >= ENOUGH
            verdict = decided(is_enough and seen.full > seen.low, is_enough)
            yield self.judgement("autocast-without-effect", seen, verdict, products=products)
