"""How far each layer moves in a step: steps that move nothing, gradients that are zero, learning rates out of band.
Compares some elements of each matrix before and after some steps, all at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median
from weakref import ref

import torch
from torch import Tensor

from dllint.confirm.inside.parts import some
from dllint.confirm.pictures import Layer, histogram
from dllint.confirm.probes.base import ENOUGH, Judgements, Probe, decided, parameters_of
from dllint.confirm.probes.events import OptimizerStep, Stack, stack_of
from dllint.confirm.probes.gradients import Tracked

_FIRST = 12  # steps that are all looked at
_SAMPLE = 512  # elements of a parameter that are compared
_MOST_LAYERS = 200
_TINY = 1e-6  # of the size of elements, below which lengths cannot be compared
_TOO_FAST, _TOO_SLOW, _ENOUGH = 0.5, 3e-5, 3e-4  # updates compared with weights
_COMPARABLE = ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "RMSprop", "Adagrad", "Lion")  # others choose their own steps
_EARLY, _SETTLED = 3, (10, 20)  # steps


@dataclass(slots=True)
class _Seen:
    """What was seen of a parameter in the steps that were looked at."""

    parameter: ref[Tensor]
    layer: Layer
    looks: int = 0
    without: int = 0  # with no gradient
    zero: int = 0  # with a gradient that is zero
    values: Tensor | None = None  # some elements, in the last of these steps
    gradient: Tensor | None = None


@dataclass(slots=True)
class _Steps:
    """The steps of an optimizer that were looked at."""

    tracked: Tracked
    layers: list[_Seen] = field(default_factory=list)
    by_id: dict[int, _Seen] = field(default_factory=dict)  # of what exists; others may get the ids later
    looks: int = 0
    empty: int = 0  # in which no parameter had a gradient
    compared: int = 0  # in which something had to move
    vain: int = 0  # in which nothing did
    ratios: list[tuple[int, float, float]] = field(default_factory=list)  # step, median update, learning rate
    stacks: dict[Stack, None] = field(default_factory=dict)


class Movement(Probe):
    def begin(self) -> None:
        self._steps: dict[Tracked, _Steps] = {}
        self._before: list[tuple[Tensor, Tensor]] = []
        self._rates: dict[int, float] = {}
        self._is_sampled = False

    def before_optimizer_step(self, event: OptimizerStep) -> None:
        groups = event.optimizer.param_groups
        self._before = []
        self._is_sampled = self.is_sampled(self.run.gradients.of(event.optimizer).steps, _FIRST - 1)
        if self._is_sampled:
            self._rates = {id(p): float(group.get("lr", 1.0)) for group in groups for p in group["params"]}
            matrices = [p for p in parameters_of(event.optimizer) if p.dim() > 1]
            trainable = [p for p in matrices if p.requires_grad and p.is_floating_point() and p.layout == torch.strided]
            self._before = [(p, sample(p)) for p in trainable[:_MOST_LAYERS] if p.numel()]

    def on_optimizer_step(self, event: OptimizerStep) -> None:
        if not self._is_sampled or bool(getattr(event.optimizer, "found_inf", False)):
            return
        tracked = self.run.gradients.of(event.optimizer)
        steps = self._steps.setdefault(tracked, _Steps(tracked))
        steps.stacks.setdefault(stack_of(event))
        steps.looks += 1
        steps.empty += all(p.grad is None for p in parameters_of(event.optimizer))
        with_gradient = [(p, begin) for p, begin in self._before if p.grad is not None and not p.grad.is_sparse]
        for parameter, _ in self._before:
            seen = self._of(steps, parameter)
            seen.looks += 1
            seen.without += parameter.grad is None
        self._before = []
        if with_gradient:
            self._compare(steps, tracked.steps - 1, with_gradient)

    def _of(self, steps: _Steps, parameter: Tensor) -> _Seen:
        known = steps.by_id.get(id(parameter))
        if known is None or known.parameter() is not parameter:
            layer = Layer(self.run.names.of(parameter), list(parameter.shape), steps.tracked.kind)
            known = steps.by_id[id(parameter)] = _Seen(ref(parameter), layer)
            steps.layers.append(known)
        return known

    def _compare(self, steps: _Steps, step: int, pairs: list[tuple[Tensor, Tensor]]) -> None:
        """Compare parameters with what they were. Reads from the device once."""
        begins = [begin for _, begin in pairs]
        nows = [sample(parameter) for parameter, _ in pairs]
        slopes = [sample(parameter.grad) for parameter, _ in pairs]  # type: ignore[arg-type]
        whole = [parameter.grad for parameter, _ in pairs if parameter.grad is not None]
        moves = torch._foreach_sub(nows, begins)
        groups = [*([tensor.float() for tensor in group] for group in (moves, begins, slopes)), whole]
        lengths = [[length.float() for length in torch._foreach_norm(group)] for group in groups]
        columns = [torch.stack([value.to(moves[0].device) for value in column]) for column in lengths]
        rows = torch.stack(columns, 1).tolist()
        ratios, has_moved, must_move = [], False, False
        for (parameter, begin), now, slope, (move, weight, local, gradient) in zip(
            pairs, nows, slopes, rows, strict=True
        ):
            seen = self._of(steps, parameter)
            seen.zero += gradient == 0
            seen.values, seen.gradient = now, slope
            has_moved = has_moved or move != 0
            must_move = must_move or (0 < local < float("inf") and self._rates.get(id(parameter), 0.0) != 0)
            if weight > _TINY * begin.numel() ** 0.5:
                seen.layer.updates.append((step, move / weight))
                seen.layer.gradients.append((step, local / weight))
                ratios.append(move / weight)
        steps.compared += must_move
        steps.vain += must_move and not has_moved
        if ratios:
            rate = max(self._rates.values(), default=0.0)
            steps.ratios.append((step, median(ratios), rate))
            self.run.trace("update_ratio", median(ratios))

    def judge(self) -> Judgements:
        for steps in self._steps.values():
            yield from self._empty(steps)
            yield from self._vain(steps)
            yield from self._unmoved(steps)
            yield from self._band(steps)
            for seen in steps.layers:
                seen.layer.weights = histogram([] if seen.values is None else seen.values.float().tolist())
                seen.layer.gradient = histogram([] if seen.gradient is None else seen.gradient.float().tolist())
                self.run.record.pictures.layers.append(seen.layer)

    def _empty(self, steps: _Steps) -> Judgements:
        """An optimizer that no gradient ever comes to. One whose gradients are cleared too early has another rule."""
        if steps.looks >= ENOUGH and self.run.backwards >= ENOUGH and not steps.tracked.reached:
            frozen = all(not parameter.requires_grad for parameter in steps.tracked.parameters())
            seen, verdict = steps.tracked.seen(steps.looks, *steps.stacks), decided(steps.empty == steps.looks, True)
            told = ", and all of them are frozen" if frozen else ""
            yield self.judgement("optimizer-trains-nothing", seen, verdict, told, empty=steps.empty, frozen=frozen)

    def _vain(self, steps: _Steps) -> Judgements:
        seen = steps.tracked.seen(steps.compared, *steps.stacks)
        verdict = decided(steps.vain >= ENOUGH, not steps.vain and steps.compared >= ENOUGH)
        yield self.judgement("step-without-update", seen, verdict, vain=steps.vain)

    def _unmoved(self, steps: _Steps) -> Judgements:
        """Matrices whose gradient is zero, or never comes, while others of the optimizer have one."""
        looked = [seen for seen in steps.layers if seen.looks >= ENOUGH]
        zero = [seen for seen in looked if seen.zero == seen.looks]
        without = [seen for seen in looked if seen.without == seen.looks]
        has_gradients = len(zero) + len(without) < len(looked)
        for rule, found in (("gradient-always-zero", zero), ("gradient-never-comes", without)) if looked else ():
            names, verdict = [seen.layer.name for seen in found], decided(found and has_gradients, not found)
            places = steps.tracked.seen(min(seen.looks for seen in looked), *steps.stacks)
            numbers = {"number": len(names), "matrices": len(looked)}
            yield self.judgement(rule, places, verdict, parameters=names[:20], **numbers)

    def _band(self, steps: _Steps) -> Judgements:
        """DL312: updates that are far too long at the beginning, or far too short once it is over."""
        early = [ratio for step, ratio, _ in steps.ratios if step < _EARLY]
        settled = [(ratio, rate) for step, ratio, rate in steps.ratios if _SETTLED[0] <= step <= _SETTLED[1]]
        fast = median(early) if len(early) >= ENOUGH else 0.0
        slow = median(ratio for ratio, _ in settled) if settled else None
        rises = len(settled) > 1 and settled[-1][1] > settled[0][1]
        if (slow is None and fast <= _TOO_FAST) or steps.tracked.kind not in _COMPARABLE:
            return
        is_slow = slow is not None and 0 < slow < _TOO_SLOW and not rises
        seen = steps.tracked.seen(len(steps.ratios), *steps.stacks, steps.tracked.made)
        verdict = decided(fast > _TOO_FAST or is_slow, slow is not None and slow >= _ENOUGH)
        told = f", and by {slow:.2g} later" if slow is not None else ""
        yield self.judgement("DL312", seen, verdict, told, early=fast, later=slow)


def sample(tensor: Tensor) -> Tensor:
    """Some elements from all over a tensor, copied."""
    return some(tensor, _SAMPLE).clone()
