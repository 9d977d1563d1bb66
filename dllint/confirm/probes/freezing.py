"""Modules that say they are frozen, and train. Compares attributes such as ``frozen_stages`` with the parameters of
their module; wrong are steps after which all of these had gradients."""

from __future__ import annotations

from typing import Any

from dllint.confirm.probes import events
from dllint.confirm.probes.base import ENOUGH, Judgements, ObjectProbe, Samples, decided, parameters_of, stack_of

_ATTRIBUTES = ("frozen_stages", "freeze_at", "freeze_backbone", "freeze_encoder", "freeze_bert", "frozen")


class Freezing(ObjectProbe[Samples]):
    def on_model_forward(self, event: events.ModelForward) -> None:
        if event.grad == "on" and self.is_new(event.model):
            for part in event.model.modules():
                self.of(part, stack_of(event))

    def describe(self, thing: Any, *place: Any) -> Samples | None:
        for name in _ATTRIBUTES:
            value = vars(thing).get(name)
            if isinstance(value, int) and value > 0:  # or True
                return Samples(stacks=place, what=f"{type(thing).__name__}.{name} = {value}")
        return None

    def on_optimizer_step(self, event: events.OptimizerStep) -> None:
        due = list(self.due())
        held = set(map(id, parameters_of(event.optimizer))) if due else set()
        for part, promise in due:
            parameters = list(part.parameters())
            if parameters and not held.isdisjoint(map(id, parameters)):
                promise.count(all(p.requires_grad and p.grad is not None for p in parameters))

    def judge_each(self, seen: Samples) -> Judgements:
        if seen.looks >= ENOUGH:
            yield self.judgement("freezing-not-applied", seen, decided(seen.wrong == seen.looks, True))
