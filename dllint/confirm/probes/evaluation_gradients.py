"""DL209: follows calls in evaluation mode until a backward pass, a derivative, or another kind of call comes."""

from __future__ import annotations

from dataclasses import dataclass

from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, decided
from dllint.confirm.probes.events import BackwardCall, ModelForward, stack_of


@dataclass(slots=True, eq=False)
class _Kept(Samples):
    """Calls in evaluation mode from one place."""

    without: int = 0  # with gradients off
    unused: int = 0  # with gradients on, which nothing followed
    used: int = 0
    waiting: int = 0  # with gradients on, which nothing has followed yet


class EvaluationGradients(PlaceProbe[_Kept]):
    def begin(self) -> None:
        self._waiting: dict[_Kept, None] = {}

    def on_model_forward(self, event: ModelForward) -> None:
        if event.model.training:
            self._settle(used=False)
            return
        seen = self.at(stack_of(event))
        if event.grad != "on":
            seen.without += 1
        elif any(parameter.requires_grad for parameter in event.model.parameters()):
            seen.waiting += 1
            self._waiting[seen] = None

    def before_backward(self, call: BackwardCall) -> None:
        self._settle(used=True)

    def on_derivative(self) -> None:
        self._settle(used=True)

    def on_gap(self) -> None:
        self._settle(used=None)

    def _settle(self, *, used: bool | None) -> None:
        """Note whether something used what calls have kept; None where that may be."""
        if self._waiting:
            for seen in self._waiting:
                seen.used += seen.waiting if used else 0
                seen.unused += seen.waiting if used is False else 0
                seen.waiting = 0
            self._waiting = {}

    def judge(self) -> Judgements:
        self._settle(used=self.run.ended_by not in ("end", "exception"))
        yield from super().judge()

    def judge_each(self, seen: _Kept) -> Judgements:
        seen.looks = seen.unused + seen.without
        if seen.looks:
            is_wrong = seen.unused >= ENOUGH and not seen.used
            yield self.judgement("DL209", seen, decided(is_wrong, seen.without >= ENOUGH and not seen.unused))
