"""Losses that are written by hand, which only the graph tells of: softmax before a log-softmax (DL101), differences of
all with all by broadcasting (DL117), and gradients through a target that a network makes for itself (DL956)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import BackwardCall, LossCall, PlaceProbe, Samples, stack_of, unanimous
from dllint.confirm.probes.bootstrap import is_bootstrapped
from dllint.confirm.probes.graph import leaves_behind, operation, through_views

_NEAR = 40  # operations between the loss and the differences that it is made of
_FEWEST = 4  # samples that are not compared with each other by chance
_LINEAR = ("Addmm", "Mm", "Bmm", "Convolution", "AccumulateGrad")  # which end what belongs to the loss
_WHAT = {
    "DL101": "took the log-softmax of probabilities",
    "DL117": "compared each element with each other, by broadcasting",
    "DL956": "sent gradients through a target of the form reward + discount * value to the parameters that learn it",
}


class ByHand(PlaceProbe[Samples]):
    """Looks at the graphs of losses that no function of torch has computed."""

    name = "by_hand"
    at_first = 6

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._passes: dict[Stack, int] = {}
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
        passes = self._passes[stack_of(call)] = self._passes.get(stack_of(call), 0) + 1
        if is_told or self.run.packs or len(call.roots) != 1 or (passes > self.at_first and passes % self.run.every):
            return
        for node in _near(call.roots[0].grad_fn):
            kind = operation(node)
            if kind == "LogSoftmax":
                child = through_views(node.next_functions[0][0])
                self._note("DL101", stack_of(call), child is not None and operation(child) == "Softmax")
            elif kind in ("Pow", "Abs", "SmoothL1Loss"):
                difference = through_views(node.next_functions[0][0])
                if difference is not None and operation(difference) in ("Sub", "Rsub"):
                    self._note("DL117", stack_of(call), _is_of_all_with_all(difference))
                    if not derives and (answer := _learns_its_target(difference)) is not None:
                        self._note("DL956", stack_of(call), answer)

    def _note(self, rule: str, stack: Stack, is_wrong: bool) -> None:
        seen = self.at((rule, stack))
        seen.looks += 1
        seen.wrong += is_wrong
        seen.last = self.run.steps

    def judge_place(self, place: tuple[str, Stack], seen: Samples) -> Iterator[Judgement]:
        rule, stack = place
        yield self.judgement(
            rule,
            stack,
            seen,
            unanimous(seen.wrong, seen.looks),
            f"in {seen.wrong} of {seen.looks} backward passes, the loss {_WHAT[rule]}",
            "all of 3 or more; none of 3 refutes",
            {"wrong": seen.wrong, "sampled": seen.looks},
        )


def _near(root: Any) -> Iterator[Any]:
    """The operations that the loss itself is made of, as far as they can be told from those of the model."""
    open_nodes, looked = [root], 0
    while open_nodes and looked < _NEAR:
        node = open_nodes.pop(0)
        if node is None or operation(node).endswith(_LINEAR) or node.name().endswith(_LINEAR):
            continue
        looked += 1
        yield node
        open_nodes += [child for child, _ in node.next_functions]


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
