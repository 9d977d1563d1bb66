"""The types that products are computed in under autocast."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import ENOUGH, BackwardCall, Probe, stack_of
from dllint.confirm.probes.graph import nodes
from dllint.confirm.probes.scaling import autocast_types
from dllint.events import ModelForward

_OPERANDS = {
    "AddmmBackward0": "_saved_mat1",
    "MmBackward0": "_saved_self",
    "BmmBackward0": "_saved_self",
    "ConvolutionBackward0": "_saved_input",
}
_LOW = (torch.float16, torch.bfloat16)
_HAS_DEVICES = hasattr(torch, "get_autocast_dtype")  # from torch 2.4 on, one function for all devices


class Autocast(Probe):
    """Looks at the types of what matrix products are computed of, where a model is called under autocast."""

    name = "autocast"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._is_on = False
        self._looks: dict[Stack, int] = {}
        self._found: dict[Stack, list[int]] = {}  # products in low and in full precision

    def on_model_forward(self, event: ModelForward[Any]) -> None:
        self._is_on = event.grad == "on" and bool(autocast_types())

    def before_backward(self, call: BackwardCall) -> None:
        looks = self._looks[stack_of(call)] = self._looks.get(stack_of(call), 0) + 1
        if not self._is_on or self.run.packs or looks > ENOUGH:
            return
        self._is_on = False
        found = self._found.setdefault(stack_of(call), [0, 0])
        for node in nodes(call.roots):
            operand = getattr(node, _OPERANDS.get(node.name(), ""), None)
            if operand is not None and operand.is_floating_point():
                found[operand.dtype not in _LOW] += 1

    def judge(self) -> Iterator[Judgement]:
        for stack, (low, full) in self._found.items():
            looks = min(self._looks[stack], ENOUGH)
            if low + full:
                share = full / (low + full)
                enough = looks >= ENOUGH
                yield Judgement(
                    "autocast-without-effect",
                    self.name,
                    "INCONCLUSIVE" if not enough else "CONFIRMED" if share > 0.5 else "REFUTED",
                    f"{full} of {low + full} matrix products of a model called under autocast are in full precision",
                    "over half of the products of 3 backward passes; half or fewer refutes",
                    {"full": full, "low": low},
                    looks,
                    (0, self.run.steps),
                    (stack,),
                    "alarm",
                )
