"""Losses that are written by hand, which only the graph tells of: softmax before a log-softmax (DL101), differences of
all with all by broadcasting (DL117), and gradients through a target that a network makes for itself (DL956)."""

from __future__ import annotations

from typing import Any

from dllint.confirm.probes.base import Judgements, PlaceProbe, Samples
from dllint.confirm.probes.bootstrap import is_bootstrapped
from dllint.confirm.probes.events import BackwardCall, LossCall, stack_of
from dllint.confirm.probes.graph import leaves_behind, nearest, operation, through_views

_NEAR = 40  # operations between the loss and the differences that it is made of
_FEWEST = 4  # samples that are not compared with each other by chance
_LINEAR = ("Addmm", "Mm", "Bmm", "Convolution", "AccumulateGrad")  # which end what belongs to the loss


class ByHand(PlaceProbe[Samples]):
    at_first = 6

    def begin(self) -> None:
        self._is_told = False  # a function of torch has computed a loss since the last backward pass
        self._derives = False

    def on_loss_call(self, call: LossCall) -> None:
        self._is_told = True

    def on_derivative(self) -> None:
        self._derives = True

    def on_gap(self) -> None:
        self._is_told = True  # for all that is known

    def before_backward(self, call: BackwardCall) -> None:
        is_told, derives = self._is_told, self._derives
        self._is_told = self._derives = False
        stack = stack_of(call)
        is_sampled = self.is_next_sampled(stack, self.at_first)
        if is_told or self.run.packs or len(call.roots) != 1 or not is_sampled:
            return
        for node in nearest(call.roots[0].grad_fn, _NEAR, but=_LINEAR):
            kind = operation(node)
            if kind == "LogSoftmax":
                child = through_views(node.next_functions[0][0])
                self.at("DL101", stack).count(child is not None and operation(child) == "Softmax")
            elif kind in ("Pow", "Abs", "SmoothL1Loss"):
                difference = through_views(node.next_functions[0][0])
                if difference is not None and operation(difference) in ("Sub", "Rsub"):
                    self.at("DL117", stack).count(_is_of_all_with_all(difference))
                    if not derives and (answer := _learns_its_target(difference)) is not None:
                        self.at("DL956", stack).count(answer)

    def judge_each(self, seen: Samples) -> Judgements:
        rule, seen.what = seen.place[0], "backward passes"
        told = f"{seen.wrong} of {seen.looks} backward passes took the log-softmax of probabilities"
        yield self.judgement(rule, seen, seen.unanimous, told if rule == "DL101" else "")


def _shape(node: Any, number: int = 0) -> tuple[int, ...]:
    """The shape of what an operation has computed; empty where torch does not say."""
    known = getattr(node, "_input_metadata", ())
    return tuple(known[number].shape) if number < len(known) else ()


def _is_of_all_with_all(difference: Any) -> bool:
    """Whether a difference of N elements in a column, or a row, has N rows and N columns."""
    made = _shape(difference)
    parts = [_shape(child, number) for child, number in difference.next_functions if child is not None]
    if len(made) != 2 or made[0] != made[1] or made[0] < _FEWEST:
        return False
    return bool(parts) and all(part in ((made[0], 1), (made[0],)) for part in parts)


def _learns_its_target(difference: Any) -> bool | None:
    """DL956; None where neither part is such a target."""
    parts = [child for child, _ in difference.next_functions if child is not None]
    targets = [part for part in parts if is_bootstrapped(part)]
    if len(parts) != 2 or len(targets) != 1:
        return None
    (other,) = (part for part in parts if part is not targets[0])
    ours, theirs = leaves_behind([other]), leaves_behind(targets)
    if ours is None or theirs is None:
        return None
    return not {id(leaf) for leaf in ours}.isdisjoint(map(id, theirs))
