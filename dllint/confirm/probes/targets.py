"""Losses that are given what they cannot use: one class, targets in the wrong place or of another shape, and
probabilities instead of logarithms. The rules are DL102, DL106, DL111, DL112, DL115 and DL117."""

from __future__ import annotations

from collections.abc import Callable

import torch

from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples
from dllint.confirm.probes.events import LossCall, stack_of

_SYMMETRIC = ("huber_loss", "l1_loss", "mse_loss", "smooth_l1_loss")
_SUM = 1e-2  # by which a row of probabilities may miss 1
_SATURATED = 1e-3  # share of the elements


def _has_one_class(call: LossCall) -> bool | None:
    if call.function != "cross_entropy" or call.input.dim() < 2 or call.target.is_floating_point():
        return None
    return call.input.shape[1] == 1


def _is_swapped(call: LossCall) -> bool | None:
    if call.function in _SYMMETRIC or not (call.target.requires_grad or call.input.requires_grad):
        return None
    return call.target.requires_grad and not call.input.requires_grad


def _grows(call: LossCall) -> bool | None:
    if call.function not in _SYMMETRIC:
        return None
    shape: torch.Size = torch.broadcast_shapes(call.input.shape, call.target.shape)  # type: ignore[no-untyped-call]
    return shape.numel() > max(call.input.numel(), call.target.numel())


def _are_no_probabilities(call: LossCall) -> bool | None:
    if call.function != "cross_entropy" or not call.target.is_floating_point() or not call.target.numel():
        return None
    target = call.target.detach().float()
    sums = target.sum(1 if target.dim() > 1 else 0)
    return bool((target < 0).any()) or bool(((sums - 1).abs() > _SUM).any())


def _is_no_logarithm(call: LossCall) -> bool | None:
    values = call.input.detach()
    if call.function != "kl_div" or not values.numel():
        return None
    if bool((values <= _SUM).all()):
        return False
    rows = values.float().sum(-1)
    return True if bool((values >= 0).all()) and bool(((rows - 1).abs() < _SUM).all()) else None


def _is_saturated(call: LossCall) -> bool | None:
    if call.function != "binary_cross_entropy" or call.input.shape != call.target.shape or not call.input.numel():
        return None
    values, target = call.input.detach(), call.target.detach()
    lost = ((values == 0) | (values == 1)) & ((values - target).abs() > 0.5)
    return float(lost.float().mean()) > _SATURATED


_ASKED: dict[str, Callable[[LossCall], bool | None]] = {
    "DL115": _has_one_class,
    "DL111": _is_swapped,
    "DL117": _grows,
    "DL106": _are_no_probabilities,
    "DL112": _is_no_logarithm,
    "DL102": _is_saturated,
}
"""What each rule asks about a call of a loss: true or false, or nothing."""


class Targets(PlaceProbe[Samples]):
    def on_loss_call(self, call: LossCall) -> None:
        for rule, ask in _ASKED.items():
            seen = self.sample(rule, stack_of(call))
            answer = None if seen is None else ask(call)
            if seen is not None and answer is not None:
                seen.what = f"calls of {call.function}"
                seen.count(answer)

    def judge_each(self, seen: Samples) -> Judgements:
        if seen.looks:
            rule = seen.place[0]
            is_often = rule == "DL102" and seen.wrong >= ENOUGH
            yield self.judgement(rule, seen, "CONFIRMED" if is_often else seen.unanimous)
