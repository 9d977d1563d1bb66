"""DL116: distributions whose logits are probabilities. DL907: logits of a language model whose sum drifts away.

``Categorical(logits=softmax(...))`` flattens the distribution: of probabilities from 0 to 1 none is chosen 3 times as
often as another. What is given as logits lies in [0, 1], with rows that sum to 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import LossCall, PlaceProbe, Samples, stack_of, unanimous

_SUM = {torch.float16: 5e-3, torch.bfloat16: 2e-2}  # by which a row of probabilities may miss 1; 1e-3 otherwise
_WORDS = 512  # classes from which on these are words
_SPACING = 25  # steps between sums that are looked at
_STEPS = 500  # over which a drift is one
_PARTS = 5  # of that time, in each of which it has to go on
_DRIFT = 2.0


class Logits(PlaceProbe[Samples]):
    """Looks at the first logits from each place, and at some later."""

    name = "logits"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._sums: dict[Stack, list[tuple[int, float]]] = {}  # of words: by step, the mean of |log Z|

    def on_logits(self, logits: Tensor, stack: Stack) -> None:
        seen = self.sample(stack)
        if seen is None or logits.shape[-1:] < (2,):
            return
        seen.looks += 1
        seen.wrong += _are_probabilities(logits.detach())

    def on_loss_call(self, call: LossCall) -> None:
        if call.function != "cross_entropy" or call.input.dim() != 2 or call.input.shape[1] < _WORDS:
            return
        sums = self._sums.setdefault(stack_of(call), [])
        if call.input.requires_grad and (not sums or self.run.steps >= sums[-1][0] + _SPACING):
            mean = float(torch.logsumexp(call.input.detach().float(), 1).abs().mean())
            sums.append((self.run.steps, mean))

    def judge(self) -> Iterator[Judgement]:
        yield from super().judge()
        for stack, sums in self._sums.items():
            yield from self._drift(stack, sums)

    def judge_place(self, place: Stack, seen: Samples) -> Iterator[Judgement]:
        if seen.looks:
            yield self.judgement(
                "DL116",
                place,
                seen,
                unanimous(seen.wrong, seen.looks),
                f"{seen.wrong} of {seen.looks} distributions were given probabilities as their logits",
                "rows in [0, 1] that sum to 1 within 1e-3, in all of 3 or more; in none refutes",
                {"wrong": seen.wrong, "sampled": seen.looks},
            )

    def _drift(self, stack: Stack, sums: list[tuple[int, float]]) -> Iterator[Judgement]:
        """Whether the mean of the logarithm of what a softmax divides by goes away from 0, on and on."""
        steps = sums[-1][0] - sums[0][0] if sums else 0
        size = len(sums) // _PARTS
        parts = [sums[index * size : (index + 1) * size] for index in range(_PARTS)] if size else []
        means = [sum(value for _, value in part) / len(part) for part in parts]
        if not means or steps < _STEPS:
            return
        rises = all(after > before for before, after in pairwise(means))
        factor = means[-1] / means[0] if means[0] else 1.0
        yield Judgement(
            "DL907",
            self.name,
            "CONFIRMED" if rises and factor > _DRIFT else "REFUTED" if factor < 1.5 else "INCONCLUSIVE",
            f"the mean of |log Z| went from {means[0]:.3g} to {means[-1]:.3g} in {steps} steps",
            "over twice as large after 500 steps, and larger in each fifth of them; less than 1.5 times refutes",
            {"means": means, "steps": steps},
            len(sums),
            (sums[0][0], sums[-1][0]),
            (stack,),
            "note",
        )


def _are_probabilities(values: Tensor) -> bool:
    rows = values.float().sum(-1)
    sums_to_one = bool(((rows - 1).abs() < _SUM.get(values.dtype, 1e-3)).all())
    return sums_to_one and bool((values >= 0).all()) and bool((values <= 1).all())
