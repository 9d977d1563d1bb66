"""DL715 and DL941: moving averages of weights that are not in the checkpoint, or that nothing is ever evaluated with.

An average is a `torch.optim.swa_utils.AveragedModel`, or an object whose class says so and that keeps the averaged
weights the way the usual libraries do. A copy of a model that a script averages by hand cannot be told from any other.
Looks for averages when something is evaluated or saved, and compares their weights with those in use.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any
from weakref import WeakSet

import torch

from dllint.confirm.inside.parts import has_optimizer, objects, tensors, vars_of
from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, Tensor, decided, events, nn, stack_of
from dllint.confirm.probes.events import Stack

_CLASSES = re.compile(r"EMA|Ema($|[A-Z_])|MovingAverage")
_KEPT = ("shadow_params", "shadow", "averaged_params")
_INSIDE = ("ema_model", "module", "ema")  # of an average that is a module
_SEARCHES = 3  # for averages of libraries, a tenth of a second each
_WRITERS = ("safetensors.torch", "deepspeed", "torch.distributed.checkpoint")  # of weights, which are not observed
_SAME = 1e-4  # compared with the length of the weights


class _Evaluations(Samples):
    """Evaluations from one place, of which wrong are those that used the weights of the moment; or checkpoints."""

    phases: int = 0  # of evaluation between training
    with_average: int = 0  # checkpoints to resume from that an average is in


class Averages(PlaceProbe[_Evaluations]):
    _averaged: WeakSet[nn.Module] = WeakSet()
    _searches = {"evaluated": 0, "saved": 0}
    _others: WeakSet[Any] = WeakSet()  # of other libraries
    _used = 0
    _has_trained = False
    _trained: WeakSet[nn.Module] = WeakSet()
    _is_saved = False

    def on_average(self, average: nn.Module, stack: Stack) -> None:
        self._averaged.add(average)

    def on_model_forward(self, event: events.ModelForward) -> None:
        if event.grad == "on":
            self._has_trained = True
            self._trained.add(event.model)
            return
        if event.model.training or self.run.steps < ENOUGH:
            return
        seen = self.at("DL941", stack_of(event))
        if not self._has_trained and not self.is_sampled(seen.calls, self.at_first):
            return
        own = list(event.model.parameters())
        averages = [each for each in self._found("evaluated") if _are_alike(own, each)]
        if averages:
            is_used = any(_are_equal(own, each) for each in averages)
            self._used += is_used
            seen.wrong += not is_used
            seen.phases += self._has_trained and not is_used
            self._has_trained = False

    def on_state_saved(self, event: events.StateSaved) -> None:
        if not self.run.steps:
            return
        models = [list(module.parameters()) for module in self._trained]
        averages = [
            each
            for each in self._found("saved")
            if not any(_are_alike(own, each) and _are_equal(own, each) for own in models)  # else it tells nothing
        ]
        if averages:
            saved = [tensor.detach() for tensor in tensors(event.content) if tensor.is_floating_point()]
            wanted = [each[_largest(each)].detach() for each in averages]
            pairs = [(one, other) for one in wanted for other in saved if other.shape == one.shape]
            # perhaps in lower precision
            holds = any(torch.equal(one.cpu().to(other.dtype), other.cpu()) for one, other in pairs)
            self._is_saved = self._is_saved or holds
            if has_optimizer(event.content):
                seen = self.at("DL715", stack_of(event))
                seen.count()
                seen.with_average += holds

    def _found(self, why: str) -> list[list[Tensor]]:
        """The weights of each average that exists."""
        if self._searches[why] < _SEARCHES:
            self._searches[why] += 1
            self._others.update(objects(_CLASSES, (*_KEPT, "_modules")))
        found: list[list[Tensor]] = [[*average.parameters()] for average in self._averaged]
        found += [_weights(item) for item in self._others if item not in self._averaged]
        return [weights for weights in found if weights]

    def judge_each(self, seen: _Evaluations) -> Judgements:
        if seen.rule == "DL715":
            verdict = decided(not self._is_saved and sys.modules.keys().isdisjoint(_WRITERS), self._is_saved)
            yield self.judgement("DL715", seen, verdict)
            return
        phases = sum(each.phases for each in self.noted())
        is_enough = phases >= ENOUGH or (phases > 0 and self.run.ended_by == "end")
        seen.looks = 1
        if seen.wrong or self._used:
            yield self.judgement("DL941", seen, decided(is_enough and not self._used, self._used), averaged=self._used)


def _weights(average: Any) -> list[Tensor]:
    """The averaged weights of an object of a library, or of one written like those."""
    for name in _KEPT:
        value = vars_of(average).get(name)
        values = list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []
        if values and all(isinstance(item, Tensor) for item in values):
            return values
    inner = [part for name, part in vars_of(average).get("_modules", {}).items() if name in _INSIDE]
    return list(inner[0].parameters()) if inner and isinstance(inner[0], nn.Module) else []


def _are_alike(weights: Sequence[Tensor], average: Sequence[Tensor]) -> bool:
    return bool(weights) and [tuple(w.shape) for w in weights] == [tuple(a.shape) for a in average]


def _are_equal(weights: Sequence[Tensor], average: Sequence[Tensor]) -> bool:
    at = _largest(average)
    one, other = weights[at].detach().float(), average[at].detach().to(weights[at].device).float()
    return bool((one - other).norm() <= _SAME * other.norm())


def _largest(tensors: Sequence[Tensor]) -> int:
    return max(range(len(tensors)), key=lambda at: tensors[at].numel())
