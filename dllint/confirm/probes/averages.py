"""DL715 and DL941: moving averages of weights that are not in the checkpoint, or that nothing is ever evaluated with.

An average is a `torch.optim.swa_utils.AveragedModel`, or an object whose class says so and that keeps the averaged
weights the way the usual libraries do. A copy of a model that a script averages by hand cannot be told from any other.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

import torch
from torch import Tensor, nn

from dllint.confirm.evidence import Judgement, Stack, Verdict
from dllint.confirm.probes.base import ENOUGH, Probe, stack_of
from dllint.confirm.probes.contents import has_optimizer, tensors
from dllint.confirm.probes.search import kept, objects
from dllint.events import ModelForward, StateSaved

_CLASSES = re.compile(r"EMA|Ema($|[A-Z_])|MovingAverage")
_KEPT = ("shadow_params", "shadow", "averaged_params")
_INSIDE = ("ema_model", "module", "ema")  # of an average that is a module
_SEARCHES = 3  # for averages of libraries, a tenth of a second each
_FIRST = 10  # calls from each place that are looked at
_SAME = 1e-4  # compared with the length of the weights


@dataclass(slots=True)
class _Place:
    """Evaluations from one place, and those of them that used the weights of the moment."""

    calls: int = 0
    raw: int = 0  # calls
    phases: int = 0  # of evaluation between training
    first: int = 0
    last: int = 0


class Averages(Probe):
    """Looks for averages when something is evaluated or saved, and compares their weights with those in use."""

    name = "averages"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._averaged: WeakSet[nn.Module] = WeakSet()
        self._searches = {"evaluated": 0, "saved": 0}
        self._others: WeakSet[Any] = WeakSet()  # of other libraries
        self._places: dict[Stack, _Place] = {}
        self._used = 0
        self._has_trained = False
        self._trained: WeakSet[nn.Module] = WeakSet()
        self._saved: dict[Stack, list[bool]] = {}  # for each checkpoint to resume from, whether an average is in it
        self._is_saved = False

    def on_average(self, average: nn.Module) -> None:
        self._averaged.add(average)

    def on_model_forward(self, event: ModelForward[Any]) -> None:
        module: nn.Module = event.model
        if event.grad == "on":
            self._has_trained = True
            self._trained.add(module)
            return
        if module.training or self.run.steps < ENOUGH:
            return
        place = self._places.setdefault(stack_of(event), _Place(first=self.run.steps))
        place.calls += 1
        if place.calls > _FIRST and not self._has_trained and place.calls % self.run.every:
            return
        own = list(module.parameters())
        averages = [each for each in self._found("evaluated") if _are_alike(own, each)]
        if not averages:
            return
        if any(_are_equal(own, each) for each in averages):
            self._used += 1
        else:
            place.raw += 1
            place.phases += self._has_trained
            place.last = self.run.steps
        self._has_trained = False

    def on_state_saved(self, event: StateSaved[Any]) -> None:
        content: Any = event.content
        if not self.run.steps:
            return
        models = [list(module.parameters()) for module in self._trained]
        averages = [
            each
            for each in self._found("saved")
            if not any(_are_alike(own, each) and _are_equal(own, each) for own in models)  # else it tells nothing
        ]
        if averages:
            saved = list(tensors(content))
            holds = any(_is_among(_telling(each), saved) for each in averages)
            self._is_saved = self._is_saved or holds
            if has_optimizer(content):
                self._saved.setdefault(stack_of(event), []).append(holds)

    def _found(self, why: str) -> list[list[Tensor]]:
        """The weights of each average that exists."""
        if self._searches[why] < _SEARCHES:
            self._searches[why] += 1
            for item in objects(_CLASSES, (*_KEPT, "_modules")):
                self._others.add(item)
        found: list[list[Tensor]] = [[*average.parameters()] for average in self._averaged]
        found += [_weights(item) for item in self._others if item not in self._averaged]
        return [weights for weights in found if weights]

    def judge(self) -> Iterator[Judgement]:
        phases = sum(place.phases for place in self._places.values())
        is_enough = phases >= ENOUGH or (phases > 0 and self.run.ended_by == "end")
        for stack, place in self._places.items():
            if place.raw or self._used:
                verdict: Verdict = "REFUTED" if self._used else "CONFIRMED" if is_enough else "INCONCLUSIVE"
                what = f"{place.raw} of {place.calls} calls in evaluation used the weights of the moment, "
                yield self._judgement(
                    "DL941",
                    verdict,
                    what + f"and {self._used} in the run an average",
                    "no use of the average, in 3 evaluations or until the script ends; any use refutes",
                    {"raw": place.raw, "calls": place.calls, "averaged": self._used, "phases": phases},
                    stack,
                    "note",
                )
        for stack, holds in self._saved.items():
            yield self._judgement(
                "DL715",
                "REFUTED" if self._is_saved else "INCONCLUSIVE" if _writes_elsewhere() else "CONFIRMED",
                f"{sum(holds)} of {len(holds)} checkpoints with the state of an optimizer hold the average",
                "none, and no other file that is saved holds it; else refuted",
                {"checkpoints": len(holds), "with_average": sum(holds), "elsewhere": self._is_saved},
                stack,
                "alarm",
            )

    def _judgement(
        self, rule: str, verdict: Verdict, what: str, threshold: str, found: dict[str, Any], stack: Stack, voice: Any
    ) -> Judgement:
        steps = (0, self.run.steps)
        return Judgement(rule, self.name, verdict, what, threshold, found, 1, steps, (stack,), voice)


def _weights(average: Any) -> list[Tensor]:
    """The averaged weights of an object of a library, or of one written like those."""
    for name in _KEPT:
        value = kept(average).get(name)
        values = list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []
        if values and all(isinstance(item, Tensor) for item in values):
            return values
    inner = [part for name, part in kept(average).get("_modules", {}).items() if name in _INSIDE]
    return list(inner[0].parameters()) if inner and isinstance(inner[0], nn.Module) else []


def _are_alike(weights: Sequence[Tensor], average: Sequence[Tensor]) -> bool:
    return bool(weights) and [tuple(w.shape) for w in weights] == [tuple(a.shape) for a in average]


def _are_equal(weights: Sequence[Tensor], average: Sequence[Tensor]) -> bool:
    at = _largest(average)
    one, other = weights[at].detach().float(), average[at].detach().to(weights[at].device).float()
    return bool((one - other).norm() <= _SAME * other.norm())


def _telling(average: Sequence[Tensor]) -> Tensor:
    return average[_largest(average)].detach()


def _largest(tensors: Sequence[Tensor]) -> int:
    return max(range(len(tensors)), key=lambda at: tensors[at].numel())


def _is_among(tensor: Tensor, others: Sequence[Tensor]) -> bool:
    """Whether a tensor has been saved, perhaps in lower precision."""
    alike = [other.detach() for other in others if other.shape == tensor.shape and other.is_floating_point()]
    return any(torch.equal(tensor.cpu().to(other.dtype), other.cpu()) for other in alike)


def _writes_elsewhere() -> bool:
    """Whether weights may be written by what is not observed."""
    return any(name in sys.modules for name in ("safetensors.torch", "deepspeed", "torch.distributed.checkpoint"))
