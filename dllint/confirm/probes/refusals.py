"""What torch refuses, and why: targets of a type that the loss does not take (DL105, DL107), and tokens that an
embedding does not have (DL904). Such a run ends there, and the probe tells the cause."""

from __future__ import annotations

from collections import Counter
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from dllint.confirm.probes.base import ENOUGH, Judgements, Probe
from dllint.confirm.probes.events import LossCall, ModelForward, Stack, stack_of

_LOSSES = {
    "cross_entropy": ("DL105", "class indices, or floating numbers"),
    "binary_cross_entropy": ("DL107", "floating numbers"),
    "binary_cross_entropy_with_logits": ("DL107", "floating numbers"),
}
"""The rule about a loss, and the targets that it takes."""


class Refusals(Probe):
    def begin(self) -> None:
        self._good: Counter[tuple[str, Stack]] = Counter()
        self._refused: dict[tuple[str, Stack], tuple[str, int]] = {}  # what, and at which step
        self._embeds: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()

    def on_loss_call(self, call: LossCall) -> None:
        if call.function in _LOSSES:
            self._good[_LOSSES[call.function][0], stack_of(call)] += 1

    def on_loss_refused(self, function: str, input: Tensor, target: Tensor, stack: Stack) -> None:
        is_number = target.is_floating_point() or target.is_complex()
        rule, takes = _LOSSES.get(function, ("", ""))
        if rule and not is_number and target.shape == input.shape and (rule == "DL107" or target.dim() > 1):
            what = f"{'a one-hot' if rule == 'DL105' else 'a'} target of type {target.dtype}".replace("torch.", "")
            self._refused[rule, stack] = f"{function} refused {what}: it takes {takes}", self.run.steps

    def on_model_forward(self, event: ModelForward) -> None:
        embeds = self._embeds.get(event.model)
        if embeds is None:
            embeds = any(isinstance(part, nn.Embedding) for part in event.model.modules())
            self._embeds[event.model] = embeds
        if embeds:
            self._good["DL904", stack_of(event)] += 1

    def on_lookup_refused(self, indices: Tensor, weight: Tensor, stack: Stack) -> None:
        if indices.numel() and not indices.is_floating_point():
            low, high = int(indices.min()), int(indices.max())
            if high >= weight.shape[0]:
                what = f"token {high} was looked up in an embedding of {weight.shape[0]} rows"
                self._refused["DL904", stack] = what, self.run.steps
            elif low < 0:
                self._refused["DL904", stack] = f"the index {low} was looked up in an embedding", self.run.steps

    def judge(self) -> Judgements:
        for (rule, stack), (told, step) in self._refused.items():
            seen = self.whole(stack, looks=self._good[rule, stack] + 1)
            seen.last = step
            yield self.judgement(rule, seen, "CONFIRMED", told)
        refused = {(rule, place) for rule, stack in self._refused for place in stack}
        for (rule, stack), calls in self._good.items():
            if calls >= ENOUGH and not any((rule, place) in refused for place in stack[:1]):
                seen = self.whole(stack, looks=calls)
                yield self.judgement(rule, seen, "REFUTED", f"{calls} calls went well", "")
