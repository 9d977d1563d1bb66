"""Learning from preferences (DPO): the reference model (DL911), and the learning rate and beta (DL910).

The loss is ``-logsigmoid(beta * margin)``; the margin is how much more the policy has learned to prefer one answer
than the reference does. In the first step both are the same model: the margin is 0, and the loss ln 2. Later the policy
has moved, and the reference has not. What is looked at are the margins, which the graph keeps, next to calls of a model
of the same kind without gradients.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any
from weakref import ReferenceType, ref

import torch
from torch.nn.modules.dropout import _DropoutNd

from dllint.confirm.probes import events
from dllint.confirm.probes.base import ENOUGH, Judgements, Notes, Optimizer, PlaceProbe, Samples, Tensor, decided, nn
from dllint.confirm.probes.events import stack_of
from dllint.confirm.probes.graph import nearest, operation
from dllint.confirm.probes.movement import sample

_NEAR = 40  # operations between the loss and the logarithm of the sigmoid
_CALLS = 32  # before a backward pass that are remembered
_LN2, _OFF = math.log(2), 1e-3
_NOTHING = 1e-7  # a margin that is none
_FULL, _ADAPTER = 1e-5, 1e-4  # learning rates of whole models, and where few parameters are trained
_BETAS = (0.01, 0.5)
_PARTS = 3  # parameters of the reference that are compared


class _Reference(Notes):
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


class _Pairs(Samples):
    """The backward passes from one place that pairs of answers were behind."""

    loss: float = 0.0  # of the first
    begins: bool = False  # the first was before any step
    drops: bool = False  # the policy had dropout then
    still: int = 0  # with margins of 0 after a step that moved something
    after: int = 0  # such steps
    beta: float | None = None
    rate: float = 0.0
    share: float = 1.0  # of the parameters of the policy that is trained
    references: list[_Reference] = []


class Preferences(PlaceProbe[_Pairs]):
    at_first = 6
    _calls: list[tuple[ReferenceType[nn.Module], bool]] = []
    _is_resumed = False

    def on_state_restored(self, event: events.StateRestored) -> None:
        self._is_resumed = self._is_resumed or isinstance(event.target, Optimizer)

    def on_model_forward(self, event: events.ModelForward) -> None:
        if len(self._calls) < _CALLS:
            self._calls.append((ref(event.model), event.grad == "on"))

    def on_gap(self) -> None:
        self._calls = []

    def before_backward(self, call: events.BackwardCall) -> None:
        calls, self._calls = self._calls, []
        if self.run.packs or all(with_gradients for _, with_gradients in calls) or len(call.roots) != 1:
            return
        place = (stack_of(call),)
        if place in self.seen and self.sample(*place) is None:
            return
        node = next((node for node in nearest(call.roots[0].grad_fn, _NEAR) if operation(node) == "LogSigmoid"), None)
        pair = _policy_and_reference(calls) if node is not None else None
        if pair is not None:
            self._look(self.seen.get(place) or self.at(*place), node, *pair)

    def _look(self, seen: _Pairs, node: Any, policy: nn.Module, reference: nn.Module) -> None:
        margins = node._saved_self.detach().float()
        steps, rate = self._training(policy)
        seen.rate = max(seen.rate, rate)
        if not seen.looks:
            seen.loss = float(torch.nn.functional.softplus(-margins).mean())
            seen.begins = not steps and not self._is_resumed
            seen.drops = any(part.training and part.p > 0 for part in policy.modules() if isinstance(part, _DropoutNd))
            sizes = [(parameter.numel(), parameter.requires_grad) for parameter in policy.parameters()]
            seen.share = sum(size for size, trained in sizes if trained) / max(sum(size for size, _ in sizes), 1)
            made = node.next_functions[0][0]
            factor = getattr(made, "_saved_other", None) if operation(made) == "Mul" else None
            if isinstance(factor, Tensor) and factor.dim() == 0 and not factor.requires_grad:  # a number of the script
                seen.beta = float(factor)
        seen.count()
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

    def judge_each(self, seen: _Pairs) -> Judgements:
        if seen.looks >= ENOUGH:
            seen.first = 0
            yield from self._reference(seen)
            most, beta = _FULL if seen.share > 0.5 else _ADAPTER, seen.beta
            is_wild = beta is not None and not _BETAS[0] <= beta <= _BETAS[1]
            told = f", and beta {beta:.3g}" if beta is not None else ""
            yield self.judgement("DL910", seen, decided(seen.rate > most or is_wild, True), told)

    def _reference(self, seen: _Pairs) -> Judgements:
        is_off = seen.begins and abs(seen.loss - _LN2) > _OFF
        has_moved = any(item.moved for item in seen.references)
        reasons = ["the reference moves while the policy is trained"] if has_moved else []
        if seen.still == seen.after >= ENOUGH:
            reasons.append("the reference gives what the policy gives, after it has been trained")
        if is_off and not seen.drops:
            told = f"the loss is {seen.loss:.4f} before the first step, instead of ln 2"
            reasons.append(f"{told}: the reference is another model than the policy")
        is_good = not is_off and seen.begins and seen.after >= ENOUGH and not seen.still
        told = "; ".join(reasons) or f"the first loss is {seen.loss:.4f}, and the reference stays as it is"
        yield self.judgement("DL911", seen, decided(reasons, is_good), told, moved=has_moved)


def _policy_and_reference(calls: list[tuple[ReferenceType[nn.Module], bool]]) -> tuple[nn.Module, nn.Module] | None:
    """A model that was called with gradients, and one of the same kind and size that was called without."""
    modules = [(module, with_gradients) for known, with_gradients in calls if (module := known()) is not None]
    for (policy, trained), (reference, also) in product(modules, modules):
        if trained and not also:
            sizes = [sum(parameter.numel() for parameter in module.parameters()) for module in (policy, reference)]
            if policy is reference or (type(policy) is type(reference) and sizes[0] == sizes[1]):
                return policy, reference
    return None
