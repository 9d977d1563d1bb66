"""What only the graph of a loss tells: that it was built without gradients (DL205), or no model is behind it (DL206);
softmax before a log-softmax (DL101) and differences of all with all (DL117) where no function of torch computes the
loss, and gradients through a target that a network makes for itself, of the form ``reward + discount * value`` (DL956).
"""

from __future__ import annotations

from typing import Any

from dllint.confirm.probes.base import ENOUGH, Judgements, PlaceProbe, Samples, Tensor, decided, events, nn, stack_of
from dllint.confirm.probes.graph import children, leaves, leaves_behind, nearest, operation, through_views

_LOSSES = ("huber_loss", "mse_loss", "smooth_l1_loss")
_PASSES = 6  # backward passes from each place that are all looked at
_NEAR = 40  # operations between the loss and the differences that it is made of
_FEWEST = 4  # samples that are not compared with each other by chance
_LINEAR = ("Addmm", "Mm", "Bmm", "Convolution", "AccumulateGrad")  # which end what belongs to the loss
_DISCOUNT = 0.5  # the smallest
_FACTORS = 3  # that a value may be multiplied with
_SMALL = 16  # elements: a tensor that holds losses; inputs that are optimized themselves are larger


class LossGraphs(PlaceProbe[Samples]):
    _is_told = False  # a function of torch has computed a loss since the last backward pass
    _derives = False  # derivatives were computed for this loss: of an equation, perhaps

    def on_derivative(self) -> None:
        self._derives = True

    def on_gap(self) -> None:
        self._is_told = True  # for all that is known

    def on_loss_call(self, call: events.LossCall) -> None:
        self._is_told = True
        if call.function not in _LOSSES or not call.input.requires_grad:
            return
        seen = self.sample("DL956", stack_of(call))
        if seen is None or self._derives:
            return
        seen.what = f"calls of {call.function}"
        if not call.target.requires_grad:
            seen.count()
        elif not self.run.packs and any(_is_bootstrapped(side.grad_fn) for side in (call.target, call.input)):
            answer = _do_meet(leaves([call.input]), leaves([call.target]))
            if answer is not None:
                seen.count(answer)

    def before_backward(self, call: events.BackwardCall) -> None:
        is_told, derives = self._is_told, self._derives
        self._is_told = self._derives = False
        is_detached = not any(root.requires_grad for root in call.roots)
        if is_detached or call.leaves is not None:
            held = {id(p) for tracked in self.run.gradients.tracked for p in tracked.parameters()}
            ends = call.leaves or []
            is_of_numbers = not is_detached and not any(  # made of numbers, and with no parameter among them
                leaf.numel() > _SMALL or isinstance(leaf, nn.Parameter) or id(leaf) in held for leaf in ends
            )
            for rule, is_wrong in (("DL205", is_detached), ("DL206", is_of_numbers)):
                seen = self.at(rule, stack_of(call))
                if is_wrong or not (is_detached or is_of_numbers):  # what one is about says nothing of the other
                    seen.count(is_wrong)
        is_sampled = self.is_next_sampled(stack_of(call), _PASSES)
        if is_told or self.run.packs or len(call.roots) != 1 or not is_sampled:
            return
        for node in nearest(call.roots[0].grad_fn, _NEAR, but=_LINEAR):
            kind = operation(node)
            if kind == "LogSoftmax":
                self._count("DL101", call, operation(through_views(node.next_functions[0][0])) == "Softmax")
            elif kind in ("Pow", "Abs", "SmoothL1Loss"):
                difference = through_views(node.next_functions[0][0])
                if operation(difference) in ("Sub", "Rsub"):
                    self._count("DL117", call, _is_of_all_with_all(difference))
                    if not derives and (answer := _learns_its_target(difference)) is not None:
                        self._count("DL956", call, answer)

    def _count(self, rule: str, call: events.BackwardCall, is_wrong: bool) -> None:
        seen = self.at(rule, stack_of(call))
        seen.what = "backward passes"
        seen.count(is_wrong)

    def judge_each(self, seen: Samples) -> Judgements:
        if seen.rule in ("DL205", "DL206"):
            is_wrong = seen.wrong >= (ENOUGH if seen.rule == "DL206" else 1)
            yield self.judgement(seen.rule, seen, decided(is_wrong, not seen.wrong and seen.looks >= ENOUGH))
            return
        told = f"{seen.wrong} of {seen.looks} {seen.what} took the log-softmax of probabilities"
        if seen.looks:
            yield self.judgement(seen.rule, seen, seen.unanimous, told if seen.rule == "DL101" else "")


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
    parts = children(difference)
    targets = [part for part in parts if _is_bootstrapped(part)]
    if len(parts) != 2 or len(targets) != 1:
        return None
    (other,) = (part for part in parts if part is not targets[0])
    return _do_meet(leaves_behind([other]), leaves_behind(targets))


def _do_meet(ours: list[Tensor] | None, theirs: list[Tensor] | None) -> bool | None:
    """Whether gradients of two sides come to the same tensor; None where there is too much behind them."""
    return None if ours is None or theirs is None else not {*map(id, ours)}.isdisjoint(map(id, theirs))


def _is_bootstrapped(made_by: Any) -> bool:
    """Whether an operation adds what needs no gradients to a discounted value."""
    node = through_views(made_by)
    parts = children(node)
    if operation(node) != "Add" or len(parts) != 1 or len(node.next_functions) != 2:
        return False
    node, has_discount = through_views(parts[0]), False
    for _ in range(_FACTORS):
        if operation(node) != "Mul":
            break
        parts = children(node)
        factor = node._saved_other if node._saved_other is not None else node._saved_self
        is_discount = isinstance(factor, Tensor) and float(factor.min()) >= 0 and _DISCOUNT <= float(factor.max()) <= 1
        if len(parts) != 1 or not is_discount:
            return False
        node, has_discount = through_views(parts[0]), True
    return has_discount
