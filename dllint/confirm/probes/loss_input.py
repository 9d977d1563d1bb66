"""Whether a loss is given what it expects: logits or logarithms of probabilities as its input (DL101 to DL104, DL112,
DL115; as that of a categorical distribution: DL116), targets of the right kind (DL106), and both in the right order and
of one shape (DL111, DL117)."""

from __future__ import annotations

from collections.abc import Callable

import torch

from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, Stack, Tensor, events, stack_of
from dllint.confirm.probes.graph import origin

_SYMMETRIC = ("huber_loss", "l1_loss", "mse_loss", "smooth_l1_loss")
_TOLERANCE = {torch.float16: 5e-3, torch.bfloat16: 2e-2}  # of the sum of a row; 1e-3 otherwise
_SUM = 1e-2  # by which a row may miss 1 where nothing depends on its exact sum
_SATURATED = 1e-3  # share of the elements
_SQUASHING = ("Softmax", "Sigmoid")


class _Inputs(Samples):
    low: float = 0.0
    high: float = 0.0
    computed_by: list[str] = []


def _classes(values: Tensor) -> int:
    return 1 if values.dim() > 1 else 0


def _are_squashed(call: events.LossCall) -> bool:
    return origin(call.input) in _SQUASHING


def _are_probabilities(call: events.LossCall) -> bool | None:
    values, classes = call.input.detach(), _classes(call.input)
    return None if values.shape[classes] < 2 else _are_squashed(call) or are_probabilities(values, classes)


def _are_no_logarithms(call: events.LossCall) -> bool | None:
    values = call.input.detach()
    if values.dim() < 2 or values.shape[1] < 2:
        return None
    sums = torch.logsumexp(values.float(), dim=1)
    return bool((sums.abs() > 5 * _TOLERANCE.get(values.dtype, 1e-3)).any()) or bool((values > 0).any())


def _has_one_class(call: events.LossCall) -> bool | None:
    return None if call.input.dim() < 2 or call.target.is_floating_point() else call.input.shape[1] == 1


def _is_swapped(call: events.LossCall) -> bool | None:
    if call.function in _SYMMETRIC or not (call.target.requires_grad or call.input.requires_grad):
        return None
    return call.target.requires_grad and not call.input.requires_grad


def _grows(call: events.LossCall) -> bool:
    shape: torch.Size = torch.broadcast_shapes(call.input.shape, call.target.shape)  # type: ignore[no-untyped-call]
    return shape.numel() > max(call.input.numel(), call.target.numel())


def _are_no_probabilities(call: events.LossCall) -> bool | None:
    if not call.target.is_floating_point() or not call.target.numel():
        return None
    target = call.target.detach().float()
    return bool((target < 0).any()) or bool(((target.sum(_classes(target)) - 1).abs() > _SUM).any())


def _is_no_logarithm(call: events.LossCall) -> bool | None:
    values = call.input.detach()
    if bool((values <= _SUM).all()):
        return False
    rows = values.float().sum(-1)
    return True if bool((values >= 0).all()) and bool(((rows - 1).abs() < _SUM).all()) else None


def _is_saturated(call: events.LossCall) -> bool | None:
    if call.input.shape != call.target.shape:
        return None
    values, target = call.input.detach(), call.target.detach()
    lost = ((values == 0) | (values == 1)) & ((values - target).abs() > 0.5)
    return float(lost.float().mean()) > _SATURATED


_ASKED: dict[str, dict[str, Callable[[events.LossCall], bool | None]]] = {
    "binary_cross_entropy": {"DL102": _is_saturated},
    "binary_cross_entropy_with_logits": {"DL103": _are_squashed},
    "cross_entropy": {"DL101": _are_probabilities, "DL106": _are_no_probabilities, "DL115": _has_one_class},
    "kl_div": {"DL112": _is_no_logarithm},
    "multilabel_soft_margin_loss": {"DL103": _are_squashed},
    "nll_loss": {"DL104": _are_no_logarithms},
    **{name: {"DL117": _grows} for name in _SYMMETRIC},
}
"""What each rule asks about a call of a loss: true or false, or nothing. DL111 is asked about all of them."""

_OF_INPUTS = ("DL101", "DL103", "DL104")


class LossInput(PlaceProbe[_Inputs]):
    at_first = 5

    def on_loss_call(self, call: events.LossCall) -> None:
        for rule, ask in {"DL111": _is_swapped, **_ASKED.get(call.function, {})}.items():
            seen = self.sample(rule, stack_of(call))
            answer = ask(call) if seen is not None and call.input.numel() else None
            if seen is not None and answer is not None:
                seen.what = f"calls of {call.function}"
                if rule in _OF_INPUTS:
                    seen.what, (low, high) = call.function, _range(call.input.detach())
                    seen.low = min(low, seen.low) if seen.looks else low
                    seen.high = max(high, seen.high) if seen.looks else high
                    if origin(call.input) not in seen.computed_by:
                        seen.computed_by.append(origin(call.input))
                seen.count(answer)

    def on_logits(self, logits: Tensor, stack: Stack) -> None:
        seen = self.sample("DL116", stack)
        if seen is not None and logits.shape[-1:] >= (2,):
            seen.count(are_probabilities(logits.detach(), -1))

    def judge_each(self, seen: _Inputs) -> Judgements:
        if not seen.looks:
            return
        verdict, told = seen.unanimous, ""
        if seen.rule in _OF_INPUTS:
            by = ", ".join(name for name in seen.computed_by if name)
            told = f"the input of {seen.what} lies in [{seen.low:.3g}, {seen.high:.3g}]"
            told += f", computed by {by}" if by else ""
            told += f": {'no log-' if seen.rule == 'DL104' else ''}probabilities in {seen.wrong} of {seen.looks} calls"
            is_narrow = seen.rule == "DL103" and seen.low >= 0 and seen.high <= 1
            verdict = "INCONCLUSIVE" if is_narrow and not seen.wrong else verdict
        elif seen.rule == "DL102" and seen.wrong >= ENOUGH:
            verdict = "CONFIRMED"
        yield self.judgement(seen.rule, seen, verdict, told)


def are_probabilities(values: Tensor, classes: int) -> bool:
    """Whether numbers lie in [0, 1], with rows along an axis that sum to 1. A GPU may have no room for their like."""
    low, high = _range(values)
    if not (low >= 0 and high <= 1):
        return False
    rows = values.sum(classes, dtype=torch.float32)
    return bool(((rows - 1).abs() < _TOLERANCE.get(values.dtype, 1e-3)).all())


def _range(values: Tensor) -> tuple[float, float]:
    """The lowest and the highest of some numbers; ``nan`` where one is. Reads from the device once."""
    low, high = torch.stack(torch.aminmax(values)).tolist()
    return low, high
