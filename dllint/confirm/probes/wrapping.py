"""DL806: a model that is moved to another device or type after DistributedDataParallel has wrapped it.

The wrapper hangs itself upon the nodes of the graph that add up the gradients of the parameters. A parameter that is
moved gets a new node, of which the wrapper knows nothing: its gradients are exchanged no more, and the ranks go apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import Probe, stack_of
from dllint.events import ModelForward

_FIRST = 3  # calls of each model that are looked at
_MOST = 256  # parameters


@dataclass(slots=True)
class _Wrapped:
    """A model as it was wrapped: its parameters, and the nodes that add up their gradients. The wrapper itself holds
    both."""

    parameters: list[tuple[ref[Tensor], Any]]
    stack: Stack


@dataclass(slots=True)
class _Seen:
    """The calls of a wrapped model that were looked at."""

    calls: int = 0
    looks: int = 0
    moved: int = 0
    parameters: int = 0
    first: int = 0
    last: int = 0


class Wrapping(Probe):
    """Compares the nodes when the model is called with those when it was wrapped."""

    name = "wrapping"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._wrapped: WeakKeyDictionary[nn.Module, _Wrapped] = WeakKeyDictionary()
        self._seen: dict[tuple[Stack, Stack], _Seen] = {}

    def on_replicate(self, module: nn.Module, stack: Stack) -> None:
        trainable = [parameter for parameter in module.parameters() if parameter.requires_grad][:_MOST]
        self._wrapped[module] = _Wrapped([(ref(p), _accumulator(p)) for p in trainable], stack)

    def on_model_forward(self, event: ModelForward[Any]) -> None:
        stack = stack_of(event)
        wrapped = self._wrapped.get(event.model)
        if wrapped is None or event.grad != "on":
            return
        seen = self._seen.setdefault((wrapped.stack, stack), _Seen(first=self.run.steps))
        seen.calls += 1
        if seen.calls > _FIRST and seen.calls % self.run.every:
            return
        alive = [(parameter, node) for known, node in wrapped.parameters if (parameter := known()) is not None]
        trainable = [(parameter, node) for parameter, node in alive if parameter.requires_grad]
        seen.looks += 1
        seen.parameters = len(trainable)
        seen.moved = max(seen.moved, sum(_accumulator(parameter) is not node for parameter, node in trainable))
        seen.last = self.run.steps

    def judge(self) -> Iterator[Judgement]:
        for (made, called), seen in self._seen.items():
            yield Judgement(
                "DL806",
                self.name,
                "CONFIRMED" if seen.moved else "REFUTED",
                f"{seen.moved} of {seen.parameters} parameters were moved after the model had been wrapped, and their "
                "gradients are not exchanged",
                "any parameter whose gradients are added up elsewhere than when it was wrapped; none refutes",
                {"moved": seen.moved, "parameters": seen.parameters},
                seen.looks,
                (seen.first, seen.last),
                (made, called),
                "alarm",
            )


def _accumulator(parameter: Tensor) -> Any:
    """The node that adds up the gradients of a parameter."""
    with torch.enable_grad():
        node = parameter.view_as(parameter).grad_fn
    return node.next_functions[0][0] if node is not None else None
