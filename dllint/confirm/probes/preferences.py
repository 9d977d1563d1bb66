"""Learning from preferences (DPO): the reference model (DL911), and the learning rate and beta (DL910).

The loss is ``-logsigmoid(beta * margin)``; the margin is how much more the policy has learned to prefer one answer
than the reference does. In the first step both are the same model: the margin is 0, and the loss ln 2. Later the policy
has moved, and the reference has not. What is looked at are the margins, which the graph keeps, next to calls of a model
of the same kind without gradients.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch import Tensor, nn
from torch.nn.modules.dropout import _DropoutNd
from torch.optim import Optimizer

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import ENOUGH, BackwardCall, Probe, stack_of
from dllint.confirm.probes.graph import operation
from dllint.confirm.probes.movement import sample
from dllint.events import ModelForward, StateRestored

_FIRST = 5  # backward passes from each place that are looked at
_NEAR = 40  # operations between the loss and the logarithm of the sigmoid
_CALLS = 32  # before a backward pass that are remembered
_LN2, _OFF = math.log(2), 1e-3
_NOTHING = 1e-7  # a margin that is none
_FULL, _ADAPTER = 1e-5, 1e-4  # learning rates of whole models, and where few parameters are trained
_BETAS = (0.01, 0.5)
_PARTS = 3  # parameters of the reference that are compared


@dataclass(slots=True)
class _Reference:
    """A model that is called beside the policy, and some of its weights when that was first seen."""

    module: ReferenceType[nn.Module]
    weights: list[tuple[ReferenceType[Tensor], Tensor]]
    moved: bool = False

    def look(self) -> None:
        """Compare the weights with those at first."""
        for known, begin in self.weights:
            parameter = known()
            if parameter is not None and not torch.equal(sample(parameter).to(begin.device), begin):
                self.moved = True


@dataclass(slots=True)
class _Pairs:
    """The backward passes from one place that pairs of answers were behind."""

    calls: int = 0
    looked: int = 0
    loss: float = 0.0  # of the first
    begins: bool = False  # the first was before any step
    drops: bool = False  # the policy had dropout then
    still: int = 0  # with margins of 0 after a step that moved something
    after: int = 0  # such steps
    beta: float | None = None
    rate: float = 0.0
    share: float = 1.0  # of the parameters of the policy that is trained
    references: list[_Reference] = field(default_factory=list)
    shares_model: bool = False
    last: int = 0


class Preferences(Probe):
    """Reads margins from the graph of the loss."""

    name = "preferences"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._seen: dict[Stack, _Pairs] = {}
        self._calls: list[tuple[ReferenceType[nn.Module], bool]] = []
        self._is_resumed = False

    def on_state_restored(self, event: StateRestored[Any]) -> None:
        self._is_resumed = self._is_resumed or isinstance(event.target, Optimizer)

    def on_model_forward(self, event: ModelForward[Any]) -> None:
        if len(self._calls) < _CALLS:
            self._calls.append((ref(event.model), event.grad == "on"))

    def on_gap(self) -> None:
        self._calls = []

    def before_backward(self, call: BackwardCall) -> None:
        calls, self._calls = self._calls, []
        if self.run.packs or all(with_gradients for _, with_gradients in calls) or len(call.roots) != 1:
            return
        seen = self._seen.get(stack_of(call))
        number = 0 if seen is None else seen.calls
        if seen is not None:
            seen.calls += 1
        if number > _FIRST and number % self.run.every:
            return
        node = _log_sigmoid(call.roots[0])
        pair = _policy_and_reference(calls) if node is not None else None
        if pair is not None:
            if seen is None:
                seen = self._seen[stack_of(call)] = _Pairs(calls=1)
            self._look(seen, node, *pair)

    def _look(self, seen: _Pairs, node: Any, policy: nn.Module, reference: nn.Module) -> None:
        margins = node._saved_self.detach().float()
        steps, rate = self._training(policy)
        seen.rate = max(seen.rate, rate)
        if not seen.looked:
            seen.loss = float(torch.nn.functional.softplus(-margins).mean())
            seen.begins = not steps and not self._is_resumed
            seen.drops = any(part.training and part.p > 0 for part in policy.modules() if isinstance(part, _DropoutNd))
            sizes = [(parameter.numel(), parameter.requires_grad) for parameter in policy.parameters()]
            seen.share = sum(size for size, trained in sizes if trained) / max(sum(size for size, _ in sizes), 1)
            seen.beta = _factor(node.next_functions[0][0])
        seen.looked += 1
        seen.last = self.run.steps
        seen.shares_model = seen.shares_model or reference is policy
        if steps and seen.rate:
            seen.after += 1
            seen.still += float(margins.abs().max()) <= _NOTHING
        if reference is not policy:
            known = next((item for item in seen.references if item.module() is reference), None)
            if known is None:
                smallest = sorted(reference.parameters(), key=lambda p: (p.dim() < 2, p.numel()))[:_PARTS]
                seen.references.append(_Reference(ref(reference), [(ref(p), sample(p)) for p in smallest]))
            else:
                known.look()

    def _training(self, policy: nn.Module) -> tuple[int, float]:
        """How many steps the optimizers of a policy have made, and their highest learning rate."""
        own = {id(parameter) for parameter in policy.parameters()}
        holders = [each for each in self.run.gradients.tracked if not own.isdisjoint(map(id, each.samples()))]
        optimizers = [each.optimizer for each in holders if each.optimizer is not None]
        rates = [float(group.get("lr", 0.0)) for optimizer in optimizers for group in optimizer.param_groups]
        return sum(each.steps for each in holders), max(rates, default=0.0)

    def judge(self) -> Iterator[Judgement]:
        for stack, seen in self._seen.items():
            if seen.looked >= ENOUGH:
                yield self._reference(stack, seen)
                yield self._numbers(stack, seen)

    def _reference(self, stack: Stack, seen: _Pairs) -> Judgement:
        is_off = seen.begins and abs(seen.loss - _LN2) > _OFF
        is_still = seen.still == seen.after >= ENOUGH
        has_moved = any(item.moved for item in seen.references)
        reasons = [
            *(["the reference moves while the policy is trained"] if has_moved else []),
            *(["the reference gives what the policy gives, after it has been trained"] if is_still else []),
            *([f"the loss is {seen.loss:.4f} before the first step, instead of ln 2: the reference is another model "
               "than the policy"] if is_off and not seen.drops else []),
        ]  # fmt: skip
        is_good = not is_off and seen.begins and seen.after >= ENOUGH and not seen.still
        return Judgement(
            "DL911",
            self.name,
            "CONFIRMED" if reasons else "REFUTED" if is_good else "INCONCLUSIVE",
            "; ".join(reasons) or f"the first loss is {seen.loss:.4f}, and the reference stays as it is",
            "weights of the reference that change; margins of 0 after 3 or more steps; a loss that differs from ln 2 "
            "by over 1e-3 before the first step, without dropout. None of these refutes",
            {"first_loss": seen.loss, "moved": has_moved, "still": seen.still, "after": seen.after},
            seen.looked,
            (0, seen.last),
            (stack,),
            "alarm",
        )

    def _numbers(self, stack: Stack, seen: _Pairs) -> Judgement:
        most = _FULL if seen.share > 0.5 else _ADAPTER
        beta = seen.beta
        is_wild = beta is not None and not _BETAS[0] <= beta <= _BETAS[1]
        return Judgement(
            "DL910",
            self.name,
            "CONFIRMED" if seen.rate > most or is_wild else "REFUTED",
            f"the learning rate is {seen.rate:.3g}, with {seen.share:.0%} of the parameters trained"
            + (f", and beta {beta:.3g}" if beta is not None else ""),
            "a learning rate over 1e-5, or 1e-4 where less than half is trained, or beta outside of 0.01 to 0.5",
            {"learning_rate": seen.rate, "beta": beta, "trained": seen.share},
            seen.looked,
            (0, seen.last),
            (stack,),
            "note",
        )


def _log_sigmoid(root: Tensor) -> Any:
    """The operation near a loss that takes the logarithm of a sigmoid; None if there is none."""
    open_nodes, looked = [root.grad_fn], 0
    while open_nodes and looked < _NEAR:
        node = open_nodes.pop(0)
        looked += 1
        if node is not None and operation(node) == "LogSigmoid":
            return node
        open_nodes += [child for child, _ in node.next_functions if child is not None] if node is not None else []
    return None


def _factor(node: Any) -> float | None:
    """The number of the script that a margin was multiplied by."""
    other = getattr(node, "_saved_other", None) if node is not None and operation(node) == "Mul" else None
    is_number = isinstance(other, Tensor) and other.dim() == 0 and not other.requires_grad
    return float(other) if is_number else None  # type: ignore[arg-type]


def _policy_and_reference(calls: list[tuple[ReferenceType[nn.Module], bool]]) -> tuple[nn.Module, nn.Module] | None:
    """A model that was called with gradients, and one of the same kind and size that was called without."""
    modules = [(known(), with_gradients) for known, with_gradients in calls]
    for policy, trained in modules:
        for reference, also in modules:
            if policy is not None and reference is not None and trained and not also:
                sizes = [sum(parameter.numel() for parameter in module.parameters()) for module in (policy, reference)]
                if policy is reference or (type(policy) is type(reference) and sizes[0] == sizes[1]):
                    return policy, reference
    return None
