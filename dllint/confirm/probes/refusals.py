"""What torch refuses, and why: targets of a type that the loss does not take (DL105, DL107), and tokens that an
embedding does not have (DL904). Such a run ends there, and the probe tells the cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from dllint.confirm.evidence import Judgement, Stack, Voice
from dllint.confirm.probes.base import ENOUGH, LossCall, Probe, stack_of
from dllint.events import ModelForward

_BINARY = ("binary_cross_entropy", "binary_cross_entropy_with_logits")


@dataclass(frozen=True, slots=True)
class _Refusal:
    """What has been refused at a place."""

    what: str
    step: int


class Refusals(Probe):
    """Counts what goes well, and looks at what does not."""

    name = "refusals"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._good: Counter[tuple[str, Stack]] = Counter()
        self._refused: dict[tuple[str, Stack], _Refusal] = {}
        self._embeds: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()

    def on_loss_call(self, call: LossCall) -> None:
        if call.function == "cross_entropy":
            self._good["DL105", stack_of(call)] += 1
        elif call.function in _BINARY:
            self._good["DL107", stack_of(call)] += 1

    def on_loss_refused(self, function: str, input: Tensor, target: Tensor, stack: Stack) -> None:
        kind = str(target.dtype).removeprefix("torch.")
        if target.is_floating_point() or target.is_complex():
            return
        if function == "cross_entropy" and target.shape == input.shape and target.dim() > 1:
            what = f"cross_entropy refused a one-hot target of type {kind}: it takes class indices, or floating numbers"
            self._refused["DL105", stack] = _Refusal(what, self.run.steps)
        elif function in _BINARY and target.shape == input.shape:
            what = f"{function} refused a target of type {kind}: it takes floating numbers"
            self._refused["DL107", stack] = _Refusal(what, self.run.steps)

    def on_model_forward(self, event: ModelForward[Any]) -> None:
        module: nn.Module = event.model
        embeds = self._embeds.get(module)
        if embeds is None:
            embeds = self._embeds[module] = any(isinstance(part, nn.Embedding) for part in module.modules())
        if embeds:
            self._good["DL904", stack_of(event)] += 1

    def on_lookup_refused(self, indices: Tensor, weight: Tensor, stack: Stack) -> None:
        if indices.numel() and not indices.is_floating_point():
            low, high = int(indices.min()), int(indices.max())
            if high >= weight.shape[0]:
                what = f"token {high} was looked up in an embedding of {weight.shape[0]} rows"
                self._refused["DL904", stack] = _Refusal(what, self.run.steps)
            elif low < 0:
                what = f"the index {low} was looked up in an embedding"
                self._refused["DL904", stack] = _Refusal(what, self.run.steps)

    def judge(self) -> Iterator[Judgement]:
        for (rule, stack), refusal in self._refused.items():
            voice: Voice = "alarm" if rule == "DL904" else "note"
            yield self._judgement(rule, stack, True, refusal.what, self._good[rule, stack] + 1, refusal.step, voice)
        refused = {(rule, place) for rule, stack in self._refused for place in stack}
        for (rule, stack), calls in self._good.items():
            if calls >= ENOUGH and not any((rule, place) in refused for place in stack[:1]):
                yield self._judgement(rule, stack, False, f"{calls} calls went well", calls, self.run.steps, "")

    def _judgement(
        self, rule: str, stack: Stack, is_wrong: bool, what: str, calls: int, step: int, voice: Voice
    ) -> Judgement:
        return Judgement(
            rule,
            self.name,
            "CONFIRMED" if is_wrong else "REFUTED",
            what,
            "any call that raises for this reason; 3 or more that do not refute",
            {"calls": calls, "refused": is_wrong},
            calls,
            (0, step),
            (stack,),
            voice,
        )
