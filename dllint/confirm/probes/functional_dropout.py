"""DL216: a function that drops though the model is in evaluation mode."""

from __future__ import annotations

from torch import nn

from dllint.confirm.probes.base import Judgements, PlaceProbe, Samples, decided
from dllint.confirm.probes.events import Stack


class FunctionalDropout(PlaceProbe[Samples]):
    def on_dropout(self, training: bool, probability: float, outermost: nn.Module | None, stack: Stack) -> None:
        self.at(stack).count(training and probability > 0)

    def judge_each(self, seen: Samples) -> Judgements:
        yield self.judgement("DL216", seen, decided(seen.wrong == seen.looks, not seen.wrong))
