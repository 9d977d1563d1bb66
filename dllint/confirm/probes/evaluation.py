"""What is done in evaluation as in training: layers (DL207) and functions (DL216) that behave so, and gradients that
are kept for nothing (DL209).

Layers are looked at whenever a model is called without gradients, functions whenever it is in evaluation mode. Calls
with gradients in evaluation mode are followed until a backward pass, a derivative, or another kind of call comes.
"""

from __future__ import annotations

from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, Stack, decided, events, nn, stack_of


class _Calls(Samples):
    """Calls from one place; wrong are those in which something behaved as in training."""

    layers: int = 0  # that behave differently in training
    without: int = 0  # in evaluation mode with gradients off
    unused: int = 0  # in evaluation mode with gradients on, which nothing followed
    used: int = 0
    waiting: int = 0  # those of them that nothing has followed yet


class Evaluation(PlaceProbe[_Calls]):
    _waiting: dict[_Calls, None] = {}

    def on_model_forward(self, event: events.ModelForward) -> None:
        if event.grad != "on":
            layers = [part for part in event.model.modules() if is_modal(part)]
            seen = self.at("DL207", stack_of(event))
            seen.count(any(layer.training for layer in layers))
            seen.layers = max(seen.layers, len(layers))
        if event.model.training:
            self._settle(used=False)
            return
        seen = self.at("DL209", stack_of(event))
        if event.grad != "on":
            seen.without += 1
        elif any(parameter.requires_grad for parameter in event.model.parameters()):
            seen.waiting += 1
            self._waiting[seen] = None

    def on_dropout(self, drops: bool, stack: Stack) -> None:
        self.at("DL216", stack).count(drops)

    def before_backward(self, call: events.BackwardCall | None = None) -> None:
        self._settle(used=True)

    on_derivative = before_backward

    def on_gap(self) -> None:
        self._settle(used=None)

    def _settle(self, *, used: bool | None) -> None:
        """Note whether something used what calls have kept; None where that may be."""
        for seen in self._waiting:
            seen.used += seen.waiting if used else 0
            seen.unused += seen.waiting if used is False else 0
            seen.waiting = 0
        self._waiting.clear()

    def judge(self) -> Judgements:
        self._settle(used=self.run.ended_by not in ("end", "exception"))
        yield from super().judge()

    def judge_each(self, seen: _Calls) -> Judgements:
        if seen.rule == "DL209":
            seen.looks = seen.unused + seen.without
            is_good = seen.without >= ENOUGH and not seen.unused
            verdict = decided(seen.unused >= ENOUGH and not seen.used, is_good)
        else:
            verdict = decided(seen.wrong == seen.looks, not seen.wrong)
        if seen.looks:
            is_told = seen.rule != "DL207" or seen.looks >= ENOUGH
            yield self.judgement(seen.rule, seen, verdict, "", "note" if is_told else "")


def is_modal(layer: nn.Module) -> bool:
    """Whether a layer does something else in training than in evaluation."""
    if isinstance(layer, _DropoutNd):
        return layer.p > 0
    return isinstance(layer, _BatchNorm) and layer.track_running_stats
