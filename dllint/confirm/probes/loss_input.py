"""DL101, DL103 and DL104: whether a loss is given what it expects, logits or logarithms of probabilities."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from dllint.confirm.probes.base import Judgements, PlaceProbe, Samples
from dllint.confirm.probes.events import LossCall, stack_of
from dllint.confirm.probes.graph import origin

_RULES = {
    "cross_entropy": "DL101",
    "binary_cross_entropy_with_logits": "DL103",
    "multilabel_soft_margin_loss": "DL103",
    "nll_loss": "DL104",
}
_TOLERANCE = {torch.float16: 5e-3, torch.bfloat16: 2e-2}  # of the sum of a row; 1e-3 otherwise
_SQUASHING = ("Softmax", "Sigmoid")


@dataclass(slots=True, eq=False)
class _Inputs(Samples):
    """What was seen of the inputs of a loss at one place."""

    low: float = float("inf")
    high: float = float("-inf")
    origins: list[str] = field(default_factory=list)


class LossInput(PlaceProbe[_Inputs]):
    at_first = 5

    def on_loss_call(self, call: LossCall) -> None:
        rule = _RULES.get(call.function)
        if rule is None or not call.input.is_floating_point() or not call.input.numel():
            return
        seen = self.sample(rule, stack_of(call))
        if seen is None:
            return
        before = origin(call.input)
        values = call.input.detach()
        wrong = before in _SQUASHING if rule == "DL103" else _is_wrong(rule, values, before)
        if wrong is None:
            return
        low, high = (float(value) for value in torch.aminmax(values))
        seen.what = call.function
        seen.count(wrong)
        seen.low, seen.high = min(seen.low, low), max(seen.high, high)
        if before not in seen.origins:
            seen.origins.append(before)

    def judge_each(self, seen: _Inputs) -> Judgements:
        if seen.looks:
            rule = seen.place[0]
            is_narrow = rule == "DL103" and seen.low >= 0 and seen.high <= 1
            by = ", ".join(name for name in seen.origins if name)
            told = f"the input of {seen.what} lies in [{seen.low:.3g}, {seen.high:.3g}]"
            told += f", computed by {by}" if by else ""
            told += f": {'no log-' if rule == 'DL104' else ''}probabilities in {seen.wrong} of {seen.looks} calls"
            verdict = "INCONCLUSIVE" if is_narrow and not seen.wrong else seen.unanimous
            yield self.judgement(rule, seen, verdict, told, computed_by=seen.origins)


def _is_wrong(rule: str, values: Tensor, before: str) -> bool | None:
    """Whether the input is what the loss does not expect; None if it has too few rows to tell."""
    classes = 1 if values.dim() > 1 else 0
    if values.shape[classes] < 2 or (values.dim() == 1 and rule == "DL104"):
        return None
    if rule == "DL104":
        sums = torch.logsumexp(values.float(), dim=classes)
        return bool((sums.abs() > 5 * _TOLERANCE.get(values.dtype, 1e-3)).any()) or bool((values > 0).any())
    return before in _SQUASHING or are_probabilities(values, classes)


def are_probabilities(values: Tensor, classes: int) -> bool:
    """Whether numbers lie in [0, 1], with rows along an axis that sum to 1."""
    rows = values.float().sum(classes)
    sums_to_one = bool(((rows - 1).abs() < _TOLERANCE.get(values.dtype, 1e-3)).all())
    return sums_to_one and bool((values >= 0).all()) and bool((values <= 1).all())
