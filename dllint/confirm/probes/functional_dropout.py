"""DL216: functions that drop in evaluation."""

from __future__ import annotations

from torch import nn

from dllint.confirm.evidence import Stack
from dllint.confirm.probes.collecting import PlaceProbe
from dllint.confirm.probes.judging import Judgements, Samples, decided


class FunctionalDropout(PlaceProbe[Samples]):
    """DL216: a function that drops though the model is in evaluation mode."""

    def on_dropout(self, training: bool, probability: float, outermost: nn.Module | None, stack: Stack) -> None:
        self.at(stack).count(training and probability > 0)

    def judge_each(self, seen: Samples) -> Judgements:
        verdict = decided(seen.wrong == seen.looks, not seen.wrong)
        what = f"{seen.wrong} of {seen.looks} calls in evaluation mode dropped"
        yield self.judgement("DL216", seen, verdict, what, {"dropping": seen.wrong, "calls": seen.looks})
