"""DL116: distributions whose logits are probabilities. DL907: logits of a language model whose sum drifts away.

``Categorical(logits=softmax(...))`` flattens the distribution: of probabilities from 0 to 1 none is chosen 3 times as
often as another. What is given as logits lies in [0, 1], with rows that sum to 1.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from dllint.confirm.probes.base import Judgements, PlaceProbe, Samples, decided
from dllint.confirm.probes.events import LossCall, Stack, stack_of
from dllint.confirm.probes.loss_input import are_probabilities

_WORDS = 512  # classes from which on these are words
_SPACING = 25  # steps between sums that are looked at
_STEPS = 500  # over which a drift is one
_PARTS = 5  # of that time, in each of which it has to go on
_DRIFT, _STEADY = 2.0, 1.5


class Logits(PlaceProbe[Samples]):
    rule = "DL116"

    def begin(self) -> None:
        self._sums: dict[Stack, list[tuple[int, float]]] = {}  # of words: by step, the mean of |log Z|

    def on_logits(self, logits: Tensor, stack: Stack) -> None:
        seen = self.sample(stack)
        if seen is not None and logits.shape[-1:] >= (2,):
            seen.count(are_probabilities(logits.detach(), -1))

    def on_loss_call(self, call: LossCall) -> None:
        if call.function != "cross_entropy" or call.input.dim() != 2 or call.input.shape[1] < _WORDS:
            return
        sums = self._sums.setdefault(stack_of(call), [])
        if call.input.requires_grad and (not sums or self.run.steps >= sums[-1][0] + _SPACING):
            mean = float(torch.logsumexp(call.input.detach().float(), 1).abs().mean())
            sums.append((self.run.steps, mean))

    def judge(self) -> Judgements:
        yield from super().judge()
        for stack, sums in self._sums.items():
            yield from self._drift(stack, sums)

    def _drift(self, stack: Stack, sums: list[tuple[int, float]]) -> Judgements:
        """Whether the mean of the logarithm of what a softmax divides by goes away from 0, on and on."""
        steps = sums[-1][0] - sums[0][0] if sums else 0
        size = len(sums) // _PARTS
        parts = [sums[index * size : (index + 1) * size] for index in range(_PARTS)] if size else []
        means = [sum(value for _, value in part) / len(part) for part in parts]
        if not means or steps < _STEPS:
            return
        rises = all(after > before for before, after in pairwise(means))
        factor = means[-1] / means[0] if means[0] else 1.0
        seen = Samples(stacks=(stack,), first=sums[0][0], last=sums[-1][0], looks=len(sums))
        verdict = decided(rises and factor > _DRIFT, factor < _STEADY)
        yield self.judgement("DL907", seen, verdict, first=means[0], last=means[-1], steps=steps)
