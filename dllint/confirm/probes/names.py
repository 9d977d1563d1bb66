"""What parameters are called in the modules that the script calls. Knows the modules that were called, for itself and
for the probes behind it."""

from __future__ import annotations

from weakref import WeakSet

from dllint.confirm.probes.base import Probe, Tensor, events, nn


class Names(Probe):
    turn = -1
    _modules: WeakSet[nn.Module] = WeakSet()
    _known: dict[int, str] = {}

    def begin(self) -> None:
        self.run.names = self

    def on_model_forward(self, event: events.ModelForward) -> None:
        if event.model not in self._modules:
            self._modules.add(event.model)
            self._known = {}

    def of(self, parameter: Tensor) -> str:
        """The name of a parameter; its shape where no module has it."""
        if id(parameter) not in self._known:
            named = [pair for module in list(self._modules) for pair in module.named_parameters()]
            self._known = {id(found): name.removeprefix("module.") for name, found in named}
        return self._known.get(id(parameter), f"shape {list(parameter.shape)}")
