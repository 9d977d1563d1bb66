"""Parameters in half precision, and optimizers that cannot step with them: DL310 and DL316.

In float16 the second moments of small gradients are 0, and so is Adam's default ``eps``: it divides by 0, or by so
little that a step is many times the learning rate. In bfloat16 an update smaller than 1/256 of a weight is lost when it
is added. Both show in some elements of each matrix before and after a step.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

import torch
from torch import Tensor

from dllint.confirm.probes.base import ENOUGH, Judgements, Probe, Samples, decided
from dllint.confirm.probes.events import OptimizerStep, Stack, stack_of
from dllint.confirm.probes.gradients import Tracked
from dllint.confirm.probes.movement import sample

_FIRST = 10  # steps that are all looked at
_MOST = 50  # parameters of an optimizer that are looked at
_ADAPTIVE = ("Adam", "AdamW", "NAdam", "RAdam", "RMSprop", "Adagrad")
_WILD = 2000.0  # times the learning rate: with eps 1e-5 it was 576 at most, and 5,000 with the 1e-6 that diverges
_LOST, _KEPT = 0.5, 0.1  # share of the elements with a gradient that a step leaves as they are
_SAMPLES = 5
_NEAR_TOP = 0.5  # of the highest learning rate, below which lost updates are meant to be small


@dataclass(slots=True)
class _Steps:
    """The steps of an optimizer that were looked at."""

    tracked: Tracked
    looks: int = 0
    half: int = 0  # with parameters in float16
    broken: int = 0  # those of them after which parameters are not finite any more
    wild: int = 0  # those in which some element moved much further than the learning rate
    furthest: float = 0.0
    eps: float = 0.0
    lost: list[tuple[float, float]] = field(default_factory=list)  # learning rate, share of updates that were lost
    stacks: dict[Stack, None] = field(default_factory=dict)

    def seen(self, looks: int) -> Samples:
        """The places of the steps, and that of the optimizer."""
        return self.tracked.seen(looks, *self.stacks, self.tracked.made)


@dataclass(slots=True)
class _Moved:
    """Some elements of a parameter before and after a step, their gradients, and the learning rate."""

    begin: Tensor
    now: Tensor
    slope: Tensor
    rate: float


class Half(Probe):
    def begin(self) -> None:
        self._steps: dict[Tracked, _Steps] = {}
        self._before: list[tuple[Tensor, Tensor, float]] = []  # parameter, elements of it, learning rate
        self._is_sampled = False

    def before_optimizer_step(self, event: OptimizerStep) -> None:
        self._before = []
        self._is_sampled = self.is_sampled(self.run.gradients.of(event.optimizer).steps, _FIRST - 1)
        if self._is_sampled and type(event.optimizer).__module__.startswith("torch.optim"):
            for group in event.optimizer.param_groups:
                half = [p for p in group["params"] if p.dtype in (torch.float16, torch.bfloat16) and p.requires_grad]
                rate = float(group.get("lr", 0.0))
                self._before += [(p, sample(p), rate) for p in half[:_MOST] if p.numel() and p.layout == torch.strided]

    def on_optimizer_step(self, event: OptimizerStep) -> None:
        if not self._is_sampled:
            return
        tracked = self.run.gradients.of(event.optimizer)
        steps = self._steps.setdefault(tracked, _Steps(tracked))
        steps.looks += 1
        steps.stacks.setdefault(stack_of(event))
        before, self._before = self._before, []
        moved = [
            _Moved(begin, sample(p), sample(p.grad), rate)
            for p, begin, rate in before
            if p.grad is not None and not p.grad.is_sparse
        ]
        if moved and not bool(getattr(event.optimizer, "found_inf", False)):
            steps.eps = float(event.optimizer.param_groups[0].get("eps", 0.0))
            self._compare_16(steps, [item for item in moved if item.begin.dtype == torch.float16])
            self._compare_b16(steps, [item for item in moved if item.begin.dtype == torch.bfloat16])

    def _compare_16(self, steps: _Steps, moved: list[_Moved]) -> None:
        if not moved or steps.tracked.kind not in _ADAPTIVE:
            return
        steps.half += 1
        broken = [item.begin.isfinite() & item.slope.isfinite() & ~item.now.isfinite() for item in moved]
        is_broken = bool(torch.cat(broken).any())
        furthest = max(
            float((item.now.float() - item.begin.float()).nan_to_num(0.0, 0.0, 0.0).abs().max()) / (item.rate or 1.0)
            for item in moved
        )
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
            if steps.tracked.kind in _ADAPTIVE and steps.looks >= ENOUGH:
                yield from self._eps(steps)
            if steps.lost or steps.looks >= ENOUGH:
                yield from self._lost(steps)

    def _eps(self, steps: _Steps) -> Judgements:
        """DL310."""
        told = ""
        if steps.half:
            told = f": {steps.broken} left what is not finite"
            told += f", one moved a weight {steps.furthest:.3g} learning rates far"
        verdict = decided(steps.broken or steps.wild >= ENOUGH, not steps.wild)
        found = {"float16": steps.half, "broken": steps.broken, "wild": steps.wild, "furthest": steps.furthest}
        yield self.judgement("DL310", steps.seen(steps.looks), verdict, told, eps=steps.eps, **found)

    def _lost(self, steps: _Steps) -> Judgements:
        """DL316."""
        rates = [rate for rate, _ in steps.lost]
        top = max(rates, default=0.0)
        shares = [share for rate, share in steps.lost if rate >= _NEAR_TOP * top > 0]
        still_rises = len(rates) > 1 and rates[-1] == top > rates[0]
        share = median(shares) if shares else 0.0
        is_good = not steps.lost or (len(shares) >= ENOUGH and share < _KEPT)
        verdict = decided(len(shares) >= _SAMPLES and share > _LOST and not still_rises, is_good)
        told = "because bfloat16 has no number in between" if steps.lost else "none of whose parameters is in bfloat16"
        yield self.judgement("DL316", steps.seen(len(steps.lost)), verdict, told, share=share, learning_rate=top)
