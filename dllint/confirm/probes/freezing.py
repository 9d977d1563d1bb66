"""Modules that say they are frozen, and train."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from torch import nn

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import ENOUGH, Probe, stack_of
from dllint.events import ModelForward, OptimizerStep

_ATTRIBUTES = ("frozen_stages", "freeze_at", "freeze_backbone", "freeze_encoder", "freeze_bert", "frozen")


@dataclass(slots=True)
class _Promise:
    """A module with an attribute that asks for frozen parameters: after how many steps all of them had gradients."""

    name: str
    stack: Stack
    looks: int = 0
    broken: int = 0


class Freezing(Probe):
    """Compares attributes such as ``frozen_stages`` with the parameters of their module."""

    name = "freezing"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._known: WeakSet[nn.Module] = WeakSet()
        self._modules: WeakKeyDictionary[nn.Module, _Promise] = WeakKeyDictionary()
        self._promises: list[_Promise] = []

    def on_model_forward(self, event: ModelForward[Any]) -> None:
        module: nn.Module = event.model
        if event.grad != "on" or module in self._known:
            return
        self._known.add(module)
        for part in module.modules():
            asked = next((name for name in _ATTRIBUTES if _is_asked(vars(part).get(name))), "")
            if asked and part not in self._modules:
                promise = _Promise(f"{type(part).__name__}.{asked} = {vars(part)[asked]}", stack_of(event))
                self._modules[part] = promise
                self._promises.append(promise)

    def on_optimizer_step(self, event: OptimizerStep[Any]) -> None:
        if not self._promises:
            return
        is_sampled = self.run.steps % self.run.every == 0
        due = [(part, promise) for part, promise in self._modules.items() if is_sampled or promise.looks < ENOUGH]
        held = {id(p) for group in event.optimizer.param_groups for p in group["params"]} if due else set()
        for part, promise in due:
            parameters = list(part.parameters())
            if parameters and not held.isdisjoint(map(id, parameters)):
                promise.looks += 1
                promise.broken += all(p.requires_grad and p.grad is not None for p in parameters)

    def judge(self) -> Iterator[Judgement]:
        for promise in self._promises:
            if promise.looks >= ENOUGH:
                yield Judgement(
                    "freezing-not-applied",
                    self.name,
                    "CONFIRMED" if promise.broken == promise.looks else "REFUTED",
                    f"{promise.name}, but each parameter of the module had a gradient after {promise.broken} of "
                    f"{promise.looks} sampled steps",
                    "all parameters after each of 3 or more sampled steps; any that is frozen refutes",
                    {"attribute": promise.name, "trained": promise.broken, "sampled": promise.looks},
                    promise.looks,
                    (0, self.run.steps),
                    (promise.stack,),
                    "alarm",
                )


def _is_asked(value: Any) -> bool:
    return value is True or (isinstance(value, int) and value > 0)
