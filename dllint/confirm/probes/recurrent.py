"""DL219: the last step of a recurrent layer that runs both ways, where the way back has seen one step only.

Then the weights with which it goes from step to step have a gradient of zero in each step, while those of the way
forward, and those for its input, have one.
"""

from __future__ import annotations

from typing import Any

from dllint.confirm.inside.stacks import defined_at
from dllint.confirm.probes.base import ObjectProbe, Samples, Tensor, events, nn, stack_of


class Recurrent(ObjectProbe[Samples]):
    rule = "DL219"

    def on_model_forward(self, event: events.ModelForward) -> None:
        if event.grad == "on" and self.is_new(event.model):
            for owner in event.model.modules():
                for layer in owner.children():
                    if isinstance(layer, nn.RNNBase) and layer.bidirectional:
                        self.of(layer, stack_of(event), defined_at(type(owner).forward))

    def describe(self, thing: Any, *place: Any) -> Samples:
        return Samples(stacks=tuple(filter(None, place)))

    def on_optimizer_step(self, event: events.OptimizerStep) -> None:
        for layer, seen in self.due():
            last = layer.num_layers - 1
            names = (f"weight_hh_l{last}", f"weight_hh_l{last}_reverse", f"weight_ih_l{last}_reverse")
            gradients = [getattr(layer, name).grad for name in names]
            if all(isinstance(gradient, Tensor) for gradient in gradients):
                forth, back, inputs = (bool(gradient.any()) for gradient in gradients)
                seen.looks += forth and inputs
                seen.wrong += forth and inputs and not back
