"""DL806: a model that is moved to another device or type after DistributedDataParallel has wrapped it.

The wrapper hangs itself upon the nodes of the graph that add up the gradients of the parameters. A parameter that is
moved gets a new node, of which the wrapper knows nothing: its gradients are exchanged no more, and the ranks go apart.
Compares the nodes when the model is called with those when it was wrapped.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary, ref

import torch

from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, Tensor, decided, events, nn, stack_of
from dllint.confirm.probes.events import Stack

_MOST = 256  # parameters


_Wrapped = tuple[Stack, list[tuple[ref[Tensor], Any]]]
"""Where a model was wrapped, and its parameters with the nodes that add up their gradients. The wrapper holds both."""


class Wrapping(PlaceProbe[Samples]):
    at_first = ENOUGH
    _wrapped: WeakKeyDictionary[nn.Module, _Wrapped] = WeakKeyDictionary()

    def on_replicate(self, module: nn.Module, stack: Stack) -> None:
        trainable = [parameter for parameter in module.parameters() if parameter.requires_grad][:_MOST]
        self._wrapped[module] = stack, [(ref(p), _accumulator(p)) for p in trainable]

    def on_model_forward(self, event: events.ModelForward) -> None:
        if event.model not in self._wrapped or event.grad != "on":
            return
        made, wrapped = self._wrapped[event.model]
        seen = self.sample(made, stack_of(event))
        if seen is not None:
            alive = [(p, node) for known, node in wrapped if (p := known()) is not None and p.requires_grad]
            seen.looks += 1
            seen.more["parameters"] = len(alive)
            seen.wrong = max(seen.wrong, sum(_accumulator(p) is not node for p, node in alive))  # that were moved

    def judge_each(self, seen: Samples) -> Judgements:
        yield self.judgement("DL806", seen, decided(seen.wrong, True))


def _accumulator(parameter: Tensor) -> Any:
    """The node that adds up the gradients of a parameter."""
    with torch.enable_grad():
        node = parameter.view_as(parameter).grad_fn
    return node.next_functions[0][0] if node is not None else None
