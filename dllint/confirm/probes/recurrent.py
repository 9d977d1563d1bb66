"""DL219: the last step of a recurrent layer that runs both ways, where the way back has seen one step only.

Then the weights with which it goes from step to step have a gradient of zero in each step, while those of the way
forward, and those for its input, have one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from torch import Tensor, nn

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.inside.stacks import defined_at
from dllint.confirm.probes.base import ENOUGH, Probe, stack_of
from dllint.events import ModelForward, OptimizerStep


@dataclass(slots=True, eq=False)
class _Layer:
    """A recurrent layer that runs both ways."""

    layer: ReferenceType[nn.RNNBase]
    places: tuple[Stack, ...]  # the call of the model, and the function that calls the layer
    looks: int = 0
    cut: int = 0  # steps in which the way back saw one step

    def look(self) -> bool:
        """Note whether the gradients are those of one step. Returns whether there are any."""
        layer = self.layer()
        if layer is None:
            return False
        last = layer.num_layers - 1
        names = (f"weight_hh_l{last}", f"weight_hh_l{last}_reverse", f"weight_ih_l{last}_reverse")
        gradients = [getattr(layer, name).grad for name in names]
        if any(not isinstance(gradient, Tensor) for gradient in gradients):
            return False
        forth, back, inputs = (bool(gradient.any()) for gradient in gradients)
        if forth and inputs:
            self.looks += 1
            self.cut += not back
        return True


class Recurrent(Probe):
    """Looks at the gradients of these layers when an optimizer steps."""

    name = "recurrent"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._known: WeakKeyDictionary[nn.Module, list[_Layer]] = WeakKeyDictionary()
        self._all: list[_Layer] = []

    def on_model_forward(self, event: ModelForward[Any]) -> None:
        module: nn.Module = event.model
        if event.grad != "on" or module in self._known:
            return
        found = [
            _Layer(ref(layer), (stack_of(event), defined_at(type(owner).forward)))
            for owner in module.modules()
            for layer in owner.children()
            if isinstance(layer, nn.RNNBase) and layer.bidirectional
        ]
        self._known[module] = found
        self._all += found

    def on_optimizer_step(self, event: OptimizerStep[Any]) -> None:
        for layer in self._all:
            if layer.looks < ENOUGH or self.run.steps % self.run.every == 0:
                layer.look()

    def judge(self) -> Iterator[Judgement]:
        for layer in self._all:
            if layer.looks:
                few = layer.looks < ENOUGH or 0 < layer.cut < layer.looks
                yield Judgement(
                    "DL219",
                    self.name,
                    "INCONCLUSIVE" if few else "CONFIRMED" if layer.cut else "REFUTED",
                    f"in {layer.cut} of {layer.looks} sampled steps the way back of a layer that runs both ways had "
                    "seen one step of each sequence only",
                    "the weights between its steps have no gradient in all of 3 or more steps, while others have; one "
                    "in all of them refutes",
                    {"cut": layer.cut, "sampled": layer.looks},
                    layer.looks,
                    (0, self.run.steps),
                    tuple(place for place in layer.places if place),
                    "alarm",
                )
