"""DL216: functions that drop in evaluation."""

from __future__ import annotations

from collections.abc import Iterator

from torch import nn

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import PlaceProbe, Samples


class FunctionalDropout(PlaceProbe[Samples]):
    """DL216: a function that drops though the model is in evaluation mode."""

    name = "functional_dropout"

    def on_dropout(self, training: bool, probability: float, outermost: nn.Module | None, stack: Stack) -> None:
        seen = self.at(stack)
        seen.last = self.run.steps
        seen.looks += 1
        seen.wrong += training and probability > 0

    def judge_place(self, place: Stack, seen: Samples) -> Iterator[Judgement]:
        yield self.judgement(
            "DL216",
            place,
            seen,
            "CONFIRMED" if seen.wrong == seen.looks else "INCONCLUSIVE" if seen.wrong else "REFUTED",
            f"{seen.wrong} of {seen.looks} calls in evaluation mode dropped",
            "all calls in a model that is in evaluation mode; none refutes",
            {"dropping": seen.wrong, "calls": seen.looks},
            "note",
        )
