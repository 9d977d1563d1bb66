"""How far each layer moves in a step: steps that move nothing, gradients that are zero, learning rates out of band
(DL312), and parameters in half precision that their optimizer cannot step with (DL310, DL316).

In float16 the second moments of small gradients are 0, and so is Adam's default ``eps``: it divides by 0, or by so
little that a step is many times the learning rate. In bfloat16 an update smaller than 1/256 of a weight is lost when it
is added. All of it shows in some elements of each matrix before and after some steps, which are compared all at once.
"""

from __future__ import annotations

from statistics import median

import torch
from torch.utils.weak import WeakIdRef

from dllint.confirm.evidence import Layer, histogram
from dllint.confirm.inside.devices import local
from dllint.confirm.inside.parts import some
from dllint.confirm.probes.base import ENOUGH, Judgements, Notes, Probe, Samples, Tensor, decided, events, parameters_of
from dllint.confirm.probes.events import Stack, stack_of
from dllint.confirm.probes.gradients import Tracked

_FIRST = 12  # steps that are all looked at
_SAMPLE = 512  # elements of a parameter that are compared
_MOST_LAYERS = 200
_TINY = 1e-6  # of the size of elements, below which lengths cannot be compared
_TOO_FAST, _TOO_SLOW, _ENOUGH = 0.5, 3e-5, 3e-4  # updates compared with weights
_COMPARABLE = ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "RMSprop", "Adagrad", "Lion")  # others choose their own steps
_EARLY, _SETTLED = 3, (10, 20)  # steps
_HALF = (torch.float16, torch.bfloat16)
_ADAPTIVE = ("Adam", "AdamW", "NAdam", "RAdam", "RMSprop", "Adagrad")
_WILD = 2000.0  # times the learning rate: with eps 1e-5 it was 576 at most, and 5,000 with the 1e-6 that diverges
_LOST, _KEPT = 0.5, 0.1  # share of the elements with a gradient that a step leaves as they are
_LOSSES = 5  # steps from which that counts
_NEAR_TOP = 0.5  # of the highest learning rate, below which lost updates are meant to be small


class _Seen(Notes):
    layer: Layer
    looks: int = 0
    without: int = 0  # with no gradient
    zero: int = 0  # with a gradient that is zero
    values: Tensor | None = None  # some elements, in the last of these steps
    gradient: Tensor | None = None


class _Moved(Notes):
    """Some elements of a parameter before and after a step, their gradients, and the learning rate."""

    parameter: Tensor
    rate: float
    begin: Tensor
    now: Tensor
    slope: Tensor


class _Steps(Notes):
    tracked: Tracked
    layers: dict[WeakIdRef, _Seen] = {}
    looks: int = 0
    empty: int = 0  # in which no parameter had a gradient
    compared: int = 0  # in which something had to move
    vain: int = 0  # in which nothing did
    ratios: list[tuple[int, float, float]] = []  # step, median update, learning rate
    stacks: dict[Stack, None] = {}
    half: int = 0  # with parameters in float16
    broken: int = 0  # those of them after which parameters are not finite any more
    wild: int = 0  # those in which some element moved much further than the learning rate
    furthest: float = 0.0
    eps: float = 0.0
    lost: list[tuple[float, float]] = []  # learning rate, share of updates lost in bfloat16

    def seen(self, looks: int, *more: Stack) -> Samples:
        """The places of the steps."""
        return self.tracked.seen(looks, *self.stacks, *more)


class Movement(Probe):
    _steps: dict[Tracked, _Steps] = {}
    _before: list[tuple[Tensor, float, Tensor]] = []  # parameter, learning rate, elements of it
    _is_sampled = False

    def before_optimizer_step(self, event: events.OptimizerStep) -> None:
        self._before = []
        self._is_sampled = self.is_sampled(self.run.gradients.of(event.optimizer).steps, _FIRST - 1)
        if self._is_sampled:
            groups = event.optimizer.param_groups
            rated = [(p, float(group.get("lr", 1.0))) for group in groups for p in group["params"]]
            trainable = [(p, rate) for p, rate in rated if p.requires_grad and p.is_floating_point() and p.numel()]
            chosen = [(p, rate) for p, rate in trainable if p.dim() > 1 or p.dtype in _HALF]
            self._before = [(p, rate, sample(p)) for p, rate in chosen[:_MOST_LAYERS] if p.layout == torch.strided]

    def on_optimizer_step(self, event: events.OptimizerStep) -> None:
        before, self._before = self._before, []
        if not self._is_sampled or bool(getattr(event.optimizer, "found_inf", False)):
            return
        tracked = self.run.gradients.of(event.optimizer)
        steps = self._steps.setdefault(tracked, _Steps(tracked))
        steps.stacks.setdefault(stack_of(event))
        steps.looks += 1
        steps.empty += all(p.grad is None for p in parameters_of(event.optimizer))
        for parameter, _, _ in before:
            if parameter.dim() > 1:
                seen = self._of(steps, parameter)
                seen.looks += 1
                seen.without += parameter.grad is None
        fed = [(*item, item[0].grad) for item in before if item[0].grad is not None]
        moved = [_Moved(p, rate, begin, sample(p), sample(g)) for p, rate, begin, g in fed if not g.is_sparse]
        if matrices := [item for item in moved if item.parameter.dim() > 1]:
            self._compare(steps, tracked.steps - 1, matrices)
        if type(event.optimizer).__module__.startswith("torch.optim"):
            steps.eps = float(event.optimizer.param_groups[0].get("eps", 0.0))
            self._compare_16(steps, [item for item in moved if item.begin.dtype == torch.float16])
            self._compare_b16(steps, [item for item in moved if item.begin.dtype == torch.bfloat16])

    def _of(self, steps: _Steps, parameter: Tensor) -> _Seen:
        key = WeakIdRef(parameter)
        if key not in steps.layers:
            steps.layers[key] = _Seen(Layer(self.run.names.of(parameter), list(parameter.shape), steps.tracked.kind))
        return steps.layers[key]

    def _compare(self, steps: _Steps, step: int, moved: list[_Moved]) -> None:
        """Compare matrices with what they were. Reads from the device once."""
        begins, slopes = [item.begin for item in moved], [item.slope for item in moved]
        moves = torch._foreach_sub([item.now for item in moved], begins)
        whole = [local(item.parameter.grad) for item in moved if item.parameter.grad is not None]
        groups = [*([tensor.float() for tensor in group] for group in (moves, begins, slopes)), whole]
        lengths = [[length.float() for length in torch._foreach_norm(group)] for group in groups]
        columns = [torch.stack([value.to(moves[0].device) for value in column]) for column in lengths]
        rows = torch.stack(columns, 1).tolist()
        ratios, has_moved, must_move = [], False, False
        for item, (move, weight, slope, gradient) in zip(moved, rows, strict=True):
            seen = self._of(steps, item.parameter)
            seen.zero += gradient == 0
            seen.values, seen.gradient = item.now, item.slope
            has_moved = has_moved or move != 0
            is_half = item.begin.dtype in _HALF  # where small updates are lost, of which DL316 tells
            must_move = must_move or (0 < slope < float("inf") and item.rate != 0 and not is_half)
            if weight > _TINY * item.begin.numel() ** 0.5:
                seen.layer.updates.append((step, move / weight))
                seen.layer.gradients.append((step, slope / weight))
                ratios.append(move / weight)
        steps.compared += must_move
        steps.vain += must_move and not has_moved
        if ratios:
            steps.ratios.append((step, median(ratios), max(item.rate for item in moved)))
            self.run.trace("update_ratio", median(ratios))

    def _compare_16(self, steps: _Steps, moved: list[_Moved]) -> None:
        if not moved or steps.tracked.kind not in _ADAPTIVE:
            return
        steps.half += 1
        broken = [item.begin.isfinite() & item.slope.isfinite() & ~item.now.isfinite() for item in moved]
        is_broken = bool(torch.cat(broken).any())
        moves = [(item.now.float() - item.begin.float()).nan_to_num(0.0, 0.0, 0.0) for item in moved]
        furthest = max(float(move.abs().max()) / (item.rate or 1.0) for move, item in zip(moves, moved, strict=True))
        steps.broken += is_broken
        steps.wild += is_broken or furthest > _WILD
        steps.furthest = max(steps.furthest, furthest)

    def _compare_b16(self, steps: _Steps, moved: list[_Moved]) -> None:
        if not moved:
            return
        slopes = torch.cat([item.slope for item in moved])
        must_move = (slopes != 0) & slopes.isfinite()
        if bool(must_move.any()):
            lost = torch.cat([item.begin == item.now for item in moved])[must_move]
            steps.lost.append((max(item.rate for item in moved), float(lost.float().mean())))

    def judge(self) -> Judgements:
        for steps in self._steps.values():
            yield from self._idle(steps)
            yield from self._unmoved(steps)
            yield from self._band(steps)
            if steps.tracked.kind in _ADAPTIVE and steps.looks >= ENOUGH:
                verdict = decided(steps.broken or steps.wild >= ENOUGH, not steps.wild)
                found = {"float16": steps.half, "broken": steps.broken, "wild": steps.wild, "furthest": steps.furthest}
                seen = steps.seen(steps.looks, steps.tracked.made)
                yield self.judgement("DL310", seen, verdict, eps=steps.eps, **found)
            if steps.lost or steps.looks >= ENOUGH:
                yield from self._lost(steps)
            for layer in steps.layers.values():
                layer.layer.weights = histogram([] if layer.values is None else layer.values.float().tolist())
                layer.layer.gradient = histogram([] if layer.gradient is None else layer.gradient.float().tolist())
                self.run.record.pictures.layers.append(layer.layer)

    def _idle(self, steps: _Steps) -> Judgements:
        """Steps for nothing. An optimizer whose gradients are cleared too early has another rule."""
        if steps.looks >= ENOUGH and self.run.backwards >= ENOUGH and not steps.tracked.reached:
            frozen = all(not parameter.requires_grad for parameter in steps.tracked.parameters())
            seen, verdict = steps.seen(steps.looks), decided(steps.empty == steps.looks, True)
            told = ", and all of them are frozen" if frozen else ""
            yield self.judgement("optimizer-trains-nothing", seen, verdict, told, empty=steps.empty, frozen=frozen)
        verdict = decided(steps.vain >= ENOUGH, not steps.vain and steps.compared >= ENOUGH)
        yield self.judgement("step-without-update", steps.seen(steps.compared), verdict, vain=steps.vain)

    def _unmoved(self, steps: _Steps) -> Judgements:
        """Matrices whose gradient is zero, or never comes, while others of the optimizer have one."""
        looked = [seen for seen in steps.layers.values() if seen.looks >= ENOUGH]
        zero = [seen for seen in looked if seen.zero == seen.looks]
        without = [seen for seen in looked if seen.without == seen.looks]
        has_gradients = len(zero) + len(without) < len(looked)
        for rule, found in (("gradient-always-zero", zero), ("gradient-never-comes", without)) if looked else ():
            names, verdict = [seen.layer.name for seen in found], decided(found and has_gradients, not found)
            places, numbers = steps.seen(min(seen.looks for seen in looked)), {"matrices": len(looked)}
            yield self.judgement(rule, places, verdict, parameters=names[:20], number=len(names), **numbers)

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
        verdict = decided(fast > _TOO_FAST or is_slow, slow is not None and slow >= _ENOUGH)
        told = f", and by {slow:.2g} later" if slow is not None else ""
        seen = steps.seen(len(steps.ratios), steps.tracked.made)
        yield self.judgement("DL312", seen, verdict, told, early=fast, later=slow)

    def _lost(self, steps: _Steps) -> Judgements:
        rates = [rate for rate, _ in steps.lost]
        top = max(rates, default=0.0)
        shares = [share for rate, share in steps.lost if rate >= _NEAR_TOP * top > 0]
        still_rises = len(rates) > 1 and rates[-1] == top > rates[0]
        share = median(shares) if shares else 0.0
        is_good = not steps.lost or (len(shares) >= ENOUGH and share < _KEPT)
        verdict = decided(len(shares) >= _LOSSES and share > _LOST and not still_rises, is_good)
        seen = steps.seen(len(steps.lost), steps.tracked.made)
        yield self.judgement("DL316", seen, verdict, share=share, learning_rate=top)


def sample(tensor: Tensor) -> Tensor:
    """Some elements from all over a tensor, copied."""
    return some(tensor, _SAMPLE).clone()
