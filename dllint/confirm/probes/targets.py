"""Losses that are given what they cannot use: one class, targets in the wrong place or of another shape, and
probabilities instead of logarithms. The rules are DL102, DL106, DL111, DL112, DL115 and DL117."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from dllint.confirm.evidence import Judgement, Stack, Verdict, Voice
from dllint.confirm.probes.base import ENOUGH, LossCall, Probe, stack_of

_FIRST = 10  # calls from each place that are looked at
_SYMMETRIC = ("huber_loss", "l1_loss", "mse_loss", "smooth_l1_loss")
_SUM = 1e-2  # by which a row of probabilities may miss 1
_SATURATED = 1e-3  # share of the elements


@dataclass(slots=True)
class _Fact:
    """What a rule asks about a call of a loss: true or false, or nothing."""

    rule: str
    ask: Callable[[LossCall], bool | None]
    what: str
    voice: Voice = "alarm"


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


_FACTS = (
    _Fact("DL115", _has_one_class, "had one class, so that it is 0 whatever the model says"),
    _Fact("DL111", _is_swapped, "needed gradients for the target and not for the input, as if they were swapped"),
    _Fact("DL117", _grows, "compared each element of the input with each of the target, by broadcasting"),
    _Fact("DL106", _are_no_probabilities, "had floating targets that are no probabilities", "note"),
    _Fact("DL112", _is_no_logarithm, "were given probabilities where logarithms of them are expected"),
    _Fact("DL102", _is_saturated, "had probabilities of just 0 or 1 on the wrong side, which send no gradient", "note"),
)


@dataclass(slots=True)
class _Seen:
    """The calls of a loss from one place that one fact is about."""

    fact: _Fact
    function: str
    asked: int = 0
    wrong: int = 0
    first: int = 0
    last: int = 0


class Targets(Probe):
    """Asks the first calls from each place, and some after them."""

    name = "targets"

    def __init__(self, run: object) -> None:
        super().__init__(run)  # type: ignore[arg-type]
        self._calls: dict[Stack, int] = {}
        self._seen: dict[tuple[str, Stack], _Seen] = {}

    def on_loss_call(self, call: LossCall) -> None:
        number = self._calls[stack_of(call)] = self._calls.get(stack_of(call), 0) + 1
        if number > _FIRST and number % self.run.every:
            return
        for fact in _FACTS:
            answer = fact.ask(call)
            if answer is None:
                continue
            seen = self._seen.get((fact.rule, stack_of(call)))
            if seen is None:
                seen = self._seen[fact.rule, stack_of(call)] = _Seen(fact, call.function, first=self.run.steps)
            seen.asked += 1
            seen.wrong += answer
            seen.last = self.run.steps

    def judge(self) -> Iterator[Judgement]:
        for (rule, stack), seen in self._seen.items():
            yield Judgement(
                rule,
                self.name,
                _verdict(seen),
                f"{seen.wrong} of {seen.asked} calls of {seen.function} {seen.fact.what}",
                "all of 3 or more calls; none of 3 refutes",
                {"wrong": seen.wrong, "sampled": seen.asked, "function": seen.function},
                seen.asked,
                (seen.first, seen.last),
                (stack,),
                seen.fact.voice,
            )


def _verdict(seen: _Seen) -> Verdict:
    if seen.asked < ENOUGH:
        return "INCONCLUSIVE"
    if not seen.wrong:
        return "REFUTED"
    is_enough = seen.wrong == seen.asked or (seen.fact.rule == "DL102" and seen.wrong >= ENOUGH)
    return "CONFIRMED" if is_enough else "INCONCLUSIVE"
