"""Fingerprints of the parameters of each rank, which dllint compares after the run: no communication is added."""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

from torch import Tensor, nn
from torch.optim import Optimizer

from dllint.confirm.inside.ranks import are_several_ranks
from dllint.confirm.probes.base import ENOUGH, Probe
from dllint.confirm.probes.events import ModelForward, OptimizerStep


class Replicas(Probe):
    """Notes what the parameters are before the first step and in some steps after it, where several ranks train."""

    def begin(self) -> None:
        self._modules: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()  # and the order in which they came
        self._begin: dict[str, str] = {}
        self._steps = 0

    def on_model_forward(self, event: ModelForward) -> None:
        if event.grad == "on" and event.model not in self._modules:
            self._modules[event.model] = len(self._modules)

    def before_optimizer_step(self, event: OptimizerStep) -> None:
        if not self._begin and self.run.steps < ENOUGH and are_several_ranks():
            self._begin = dict(self._fingerprints())

    def on_optimizer_step(self, event: OptimizerStep) -> None:
        self._count()

    def on_step_passed_over(self, optimizer: Optimizer) -> None:
        self._count()

    def _count(self) -> None:
        if not self._begin:
            return
        self._steps += 1
        if self._steps <= ENOUGH or self._steps % self.run.settings.every == 0:  # in all ranks at the same steps
            now = dict(self._fingerprints())
            self.run.record.fingerprints = {
                name: [self._begin[name], now[name]] for name in self._begin.keys() & now.keys()
            }

    def _fingerprints(self) -> Iterator[tuple[str, str]]:
        for module, number in self._modules.items():
            for name, parameter in module.named_parameters():
                yield f"{type(module).__name__}[{number}].{name}", _fingerprint(parameter)


def _fingerprint(parameter: Tensor) -> str:
    values = parameter.detach().double()
    return f"{values.sum().item()!r} {values.square().sum().item()!r}"
