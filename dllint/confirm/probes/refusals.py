"""What torch refuses, and why: targets of a type that the loss does not take (DL105, DL107), and tokens that an
embedding does not have (DL904). Such a run ends there, and the probe tells the cause."""

from __future__ import annotations

from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, Stack, Tensor, events, nn, stack_of

_LOSSES = {
    "cross_entropy": ("DL105", "class indices, or floating numbers"),
    "binary_cross_entropy": ("DL107", "floating numbers"),
    "binary_cross_entropy_with_logits": ("DL107", "floating numbers"),
}
"""The rule about a loss, and the targets that it takes."""


class Refusals(PlaceProbe[Samples]):
    def on_loss_call(self, call: events.LossCall) -> None:
        if call.function in _LOSSES:
            self.at(_LOSSES[call.function][0], stack_of(call)).count()

    def on_model_forward(self, event: events.ModelForward) -> None:
        if self.has_part(event.model, lambda part: isinstance(part, nn.Embedding)):
            self.at("DL904", stack_of(event)).count()

    def on_loss_refused(self, function: str, input: Tensor, target: Tensor, stack: Stack) -> None:
        is_number = target.is_floating_point() or target.is_complex()
        rule, takes = _LOSSES.get(function, ("", ""))
        if rule and not is_number and target.shape == input.shape and (rule == "DL107" or target.dim() > 1):
            what = f"{'a one-hot' if rule == 'DL105' else 'a'} target of type {target.dtype}".replace("torch.", "")
            self._refused(rule, stack, f"{function} refused {what}: it takes {takes}")

    def on_lookup_refused(self, indices: Tensor, weight: Tensor, stack: Stack) -> None:
        if indices.numel() and not indices.is_floating_point():
            low, high = int(indices.min()), int(indices.max())
            if high >= weight.shape[0]:
                self._refused("DL904", stack, f"token {high} was looked up in an embedding of {weight.shape[0]} rows")
            elif low < 0:
                self._refused("DL904", stack, f"the index {low} was looked up in an embedding")

    def _refused(self, rule: str, stack: Stack, told: str) -> None:
        seen = self.at(rule, stack)
        seen.count(True)
        seen.more["told"] = told

    def judge(self) -> Judgements:
        refused = {(seen.rule, line) for seen in self.noted() if seen.wrong for line in seen.stacks[0]}
        for seen in self.noted():
            if seen.wrong:
                yield self.judgement(seen.rule, seen, "CONFIRMED", seen.more["told"])
            elif seen.looks >= ENOUGH and not any((seen.rule, line) in refused for line in seen.stacks[0][:1]):
                yield self.judgement(seen.rule, seen, "REFUTED")
