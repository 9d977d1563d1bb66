"""DL956: targets of the form ``reward + discount * value`` that need gradients for what makes the input, too."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from dllint.confirm.probes.base import PlaceProbe, Samples
from dllint.confirm.probes.events import BackwardCall, LossCall, stack_of
from dllint.confirm.probes.graph import leaves, operation, through_views

_LOSSES = ("huber_loss", "mse_loss", "smooth_l1_loss")
_DISCOUNT = 0.5  # the smallest
_FACTORS = 3  # that a value may be multiplied with


class Bootstrap(PlaceProbe[Samples]):
    rule = "DL956"

    def begin(self) -> None:
        self._derives = False  # derivatives were computed for this loss: of an equation, perhaps

    def on_derivative(self) -> None:
        self._derives = True

    def on_backward(self, call: BackwardCall) -> None:
        self._derives = False

    def on_loss_call(self, call: LossCall) -> None:
        if call.function not in _LOSSES or not call.input.requires_grad:
            return
        seen = self.sample(stack_of(call))
        if seen is None or self._derives:
            return
        seen.what = f"calls of {call.function}"
        if not call.target.requires_grad:
            seen.count()
        elif not self.run.packs and any(is_bootstrapped(side.grad_fn) for side in (call.target, call.input)):
            ours, theirs = leaves([call.input]), leaves([call.target])
            if ours is not None and theirs is not None:
                seen.count(not {id(leaf) for leaf in ours}.isdisjoint(map(id, theirs)))


def is_bootstrapped(made_by: Any) -> bool:
    """Whether an operation adds what needs no gradients to a discounted value."""
    node = through_views(made_by)
    parts = [child for child, _ in node.next_functions if child is not None] if node is not None else []
    if node is None or operation(node) != "Add" or len(parts) != 1 or len(node.next_functions) != 2:
        return False
    node, has_discount = through_views(parts[0]), False
    for _ in range(_FACTORS):
        if node is None or operation(node) != "Mul":
            break
        parts = [child for child, _ in node.next_functions if child is not None]
        factor = node._saved_other if node._saved_other is not None else node._saved_self
        if len(parts) != 1 or not isinstance(factor, Tensor) or not _is_discount(factor):
            return False
        node, has_discount = through_views(parts[0]), True
    return has_discount


def _is_discount(factor: Tensor) -> bool:
    low, high = float(factor.min()), float(factor.max())
    return low >= 0 and _DISCOUNT <= high <= 1
