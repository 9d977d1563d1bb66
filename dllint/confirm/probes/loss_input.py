"""DL101, DL103 and DL104: whether a loss is given what it expects, logits or logarithms of probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from dllint.confirm.evidence import Judgement, Stack, Verdict
from dllint.confirm.probes.base import ENOUGH, LossCall, Probe, stack_of
from dllint.confirm.probes.graph import origin

_RULES = {
    "cross_entropy": "DL101",
    "binary_cross_entropy_with_logits": "DL103",
    "multilabel_soft_margin_loss": "DL103",
    "nll_loss": "DL104",
}
_TOLERANCE = {torch.float16: 5e-3, torch.bfloat16: 2e-2}  # of the sum of a row; 1e-3 otherwise
_SQUASHING = ("Softmax", "Sigmoid")
_MANY_CALLS = 5
_THRESHOLDS = {
    "DL101": "rows in [0, 1] that sum to 1 within 1e-3, or softmax or sigmoid in front, in all of 3 or more calls; in "
    "none refutes",
    "DL103": "sigmoid or softmax in front in all of 3 or more calls; in none, and numbers outside of [0, 1], refutes",
    "DL104": "rows whose exponentials do not sum to 1 within 5e-3 in all of 3 or more calls; in none refutes",
}


@dataclass(slots=True)
class _Inputs:
    """What was seen of the inputs of a loss at one place."""

    function: str
    calls: int = 0
    sampled: int = 0
    wrong: int = 0
    elements: int = 0
    low: float = float("inf")
    high: float = float("-inf")
    origins: list[str] = field(default_factory=list)
    first: int = 0
    last: int = 0


class LossInput(Probe):
    """Looks at the first calls from each place, and then at one in so many."""

    name = "loss_input"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._seen: dict[tuple[str, Stack], _Inputs] = {}

    def on_loss_call(self, call: LossCall) -> None:
        rule = _RULES.get(call.function)
        if rule is None or not call.input.is_floating_point() or not call.input.numel():
            return
        seen = self._seen.get((rule, stack_of(call)))
        if seen is None:
            seen = self._seen[rule, stack_of(call)] = _Inputs(call.function, first=self.run.steps)
        seen.calls += 1
        if seen.calls > _MANY_CALLS and seen.calls % self.run.every:
            return
        before = origin(call.input)
        values = call.input.detach()
        wrong = before in _SQUASHING if rule == "DL103" else _is_wrong(rule, values, before)
        if wrong is None:
            return
        low, high = (float(value) for value in torch.aminmax(values))
        seen.sampled += 1
        seen.wrong += wrong
        seen.elements += values.numel()
        seen.low, seen.high = min(seen.low, low), max(seen.high, high)
        seen.last = self.run.steps
        if before not in seen.origins:
            seen.origins.append(before)

    def judge(self) -> Iterator[Judgement]:
        for (rule, stack), seen in self._seen.items():
            if not seen.sampled:
                continue
            verdict = _verdict(rule, seen)
            yield Judgement(
                rule,
                self.name,
                verdict,
                _message(rule, seen),
                _THRESHOLDS[rule],
                {
                    "function": seen.function,
                    "wrong": seen.wrong,
                    "sampled": seen.sampled,
                    "low": seen.low,
                    "high": seen.high,
                    "computed_by": seen.origins,
                },
                seen.sampled,
                (seen.first, seen.last),
                (stack,),
                "alarm",
            )


def _is_wrong(rule: str, values: Tensor, before: str) -> bool | None:
    """Whether the input is what the loss does not expect; None if it has too few rows to tell."""
    classes = 1 if values.dim() > 1 else 0
    if values.shape[classes] < 2 or (values.dim() == 1 and rule == "DL104"):
        return None
    tolerance = _TOLERANCE.get(values.dtype, 1e-3)
    numbers = values.float()
    if rule == "DL104":
        sums = torch.logsumexp(numbers, dim=classes)
        return bool((sums.abs() > 5 * tolerance).any()) or bool((numbers > 0).any())
    if before in _SQUASHING:
        return True
    rows = numbers.sum(dim=classes)
    sums_to_one = bool(((rows - 1).abs() < tolerance).all())
    return sums_to_one and bool((numbers >= 0).all()) and bool((numbers <= 1).all())


def _verdict(rule: str, seen: _Inputs) -> Verdict:
    if seen.sampled < ENOUGH:
        return "INCONCLUSIVE"
    if seen.wrong:
        return "CONFIRMED" if seen.wrong == seen.sampled else "INCONCLUSIVE"
    is_narrow = rule == "DL103" and seen.low >= 0 and seen.high <= 1
    return "INCONCLUSIVE" if is_narrow else "REFUTED"


def _message(rule: str, seen: _Inputs) -> str:
    by = ", ".join(name for name in seen.origins if name)
    what = "no log-probabilities" if rule == "DL104" else "probabilities"
    return (
        f"the input of {seen.function} lies in [{seen.low:.3g}, {seen.high:.3g}]"
        + (f", computed by {by}" if by else "")
        + f": {what} in {seen.wrong} of {seen.sampled} calls"
    )
