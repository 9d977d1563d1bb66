"""What optimizers step with: gradients that are still scaled (DL214), gradients that are mostly weight decay (DL301),
and a learning rate of 0; those that are made again and again for the same parameters (DL217), and fused ones that step
otherwise than the same optimizer does one parameter after another (DL311).

Before the first step of a fused one, a few of its small parameters are copied with their gradients, and stepped by a
twin that is not fused. Nothing else sees the twin.
"""

from __future__ import annotations

import inspect
from statistics import median
from weakref import ReferenceType, ref

import torch
from torch import Tensor
from torch.optim import Optimizer

from dllint.confirm.probes import events
from dllint.confirm.probes.base import ENOUGH, Judgements, Notes, Probe, Samples, alarm_if, decided, nn, parameters_of
from dllint.confirm.probes.events import Stack, stack_of
from dllint.confirm.probes.gradients import Tracked

_COUPLED = ("Adam", "NAdam", "RAdam")  # whose decay goes through the moments, as the gradient does
_STRONG, _WEAK = 0.03, 0.005  # shares of the gradient that are decay
_WITHOUT_MEMORY = ("SGD", "LBFGS")  # the first unless it has momentum
_FEWEST = 10  # steps with a learning rate of 0
_PARTS, _LARGEST = 3, 100_000  # parameters that a twin copies, and their elements
_OFF = 1e-2  # of the learning rate
_WARMING_UP = (1, 2)  # steps of a scheduler, after which a rate of 0 may be the first of a warm-up


class _Steps(Samples):
    """The steps of an optimizer; looks are those with a scaler, and wrong those of them with gradients still scaled."""

    shares: list[float] = []  # of the gradient, that are decay
    still: int = 0  # whose learning rates were all 0, before one was not
    has_rate: bool = False
    scheduled: int = 0  # steps of its schedulers


class _Made(Notes):
    """The optimizers that were made at one place for the same parameters, one after another."""

    kind: str
    parameter: ReferenceType[Tensor]  # the first
    remembers: bool
    latest: Tracked
    steps: int = 0  # of those before the latest
    used: int = 0  # how many of these have stepped


class Optimizers(Probe):
    _steps: dict[Tracked, _Steps] = {}
    _made: dict[Stack, list[_Made]] = {}
    _wanted: list[tuple[Tensor, Tensor]] = []  # parameters, and what a twin makes of them

    def _of(self, optimizer: Optimizer) -> tuple[Tracked, _Steps]:
        tracked = self.run.gradients.of(optimizer)
        return tracked, self._steps.setdefault(tracked, _Steps())

    def on_optimizer_created(self, event: events.OptimizerCreated) -> None:
        optimizer, stack = event.optimizer, stack_of(event)
        first = next(iter(parameters_of(optimizer)), None)
        if first is None or not stack:
            return
        tracked = self.run.gradients.of(optimizer)
        known = self._made.setdefault(stack, [])
        same = next((made for made in known if made.parameter() is first), None)
        if same is None:
            remembers = tracked.kind not in _WITHOUT_MEMORY or bool(optimizer.param_groups[0].get("momentum"))
            known.append(_Made(tracked.kind, ref(first), remembers, tracked))
            return
        same.steps += same.latest.steps
        same.used += bool(same.latest.steps)
        same.latest = tracked

    def before_optimizer_step(self, event: events.OptimizerStep) -> None:
        tracked, steps = self._of(event.optimizer)
        if tracked.was_scaled:
            is_told = getattr(event.optimizer, "grad_scale", None) is not None  # as fused ones are
            steps.count(tracked.is_scaled and not is_told)
        if not steps.has_rate:
            rates = [float(group["lr"]) for group in event.optimizer.param_groups if "lr" in group]
            steps.has_rate = not rates or any(rates)
            steps.still += not steps.has_rate
        if event.optimizer.param_groups[0].get("fused") and self.is_new(event.optimizer):
            self._wanted = self._stepped_by_twin(event.optimizer)

    def _stepped_by_twin(self, optimizer: Optimizer) -> list[tuple[Tensor, Tensor]]:
        group, is_torchs = optimizer.param_groups[0], type(optimizer).__module__.startswith("torch.optim")
        if not is_torchs or optimizer.state or getattr(optimizer, "grad_scale", None) is not None:
            return []
        small = [p for p in group["params"] if p.grad is not None and p.numel() <= _LARGEST and not p.grad.is_sparse]
        chosen = sorted(small, key=torch.numel)[:_PARTS]
        if not chosen or not all(bool(p.grad.isfinite().all()) for p in chosen):
            return []
        copies = [nn.Parameter(p.detach().clone()) for p in chosen]
        for copy, parameter in zip(copies, chosen, strict=True):
            copy.grad = parameter.grad.clone()
        names = inspect.signature(type(optimizer).__init__).parameters
        options = {name: value for name, value in group.items() if name in names and name not in ("self", "params")}
        twin = type(optimizer)(copies, **{**options, "fused": False, "foreach": False})
        twin.step()
        return list(zip(chosen, (copy.detach() for copy in copies), strict=True))

    def on_scheduler_step(self, event: events.SchedulerStep) -> None:
        optimizer = getattr(event.scheduler, "optimizer", None)
        if isinstance(optimizer, Optimizer):
            self._of(optimizer)[1].scheduled += 1

    def on_optimizer_step(self, event: events.OptimizerStep) -> None:
        tracked, steps = self._of(event.optimizer)
        wanted, self._wanted = self._wanted, []
        rate = float(event.optimizer.param_groups[0].get("lr", 0.0))
        if wanted and rate:
            difference = max(float((p.detach() - copy).abs().max()) for p, copy in wanted) / rate
            seen = tracked.seen(1, stack_of(event), tracked.made)
            self.judge_now("DL311", seen, difference > _OFF, difference=difference)
        if tracked.kind not in _COUPLED or not self.is_sampled(tracked.steps, ENOUGH):
            return
        shares = [
            float(group["weight_decay"] * parameter.norm() / parameter.grad.norm())
            for group in event.optimizer.param_groups
            if group.get("weight_decay") and not group.get("decoupled_weight_decay")
            for parameter in group["params"]
            if parameter.grad is not None and bool(parameter.grad.any())
        ]
        steps.shares += [median(shares)] if shares else []

    def judge(self) -> Judgements:
        yield from super().judge()
        for tracked, steps in self._steps.items():
            if steps.looks >= ENOUGH:
                seen = tracked.seen(steps.looks, *tracked.step_stacks)
                yield self.judgement("DL214", seen, decided(steps.wrong >= ENOUGH, not steps.wrong), wrong=steps.wrong)
            if steps.shares:
                share, is_enough = median(steps.shares), len(steps.shares) >= ENOUGH
                verdict = decided(is_enough and share >= _STRONG, is_enough and share <= _WEAK)
                yield self.judgement("DL301", tracked.seen(len(steps.shares), tracked.made), verdict, share=share)
            if steps.has_rate or steps.still:
                still = 0 if steps.has_rate else steps.still
                seen = tracked.seen(still, *tracked.step_stacks, tracked.made)
                voice = alarm_if(steps.scheduled not in _WARMING_UP)
                yield self.judgement("learning-rate-zero", seen, decided(still >= _FEWEST, not still), "", voice)
        for stack, known in self._made.items():
            most = max(known, key=lambda made: made.used)
            used = most.used + bool(most.latest.steps)
            made = most.steps + most.latest.steps
            if made:
                places, verdict = self.whole(stack, looks=used), decided(used >= ENOUGH, used == 1 and made >= ENOUGH)
                voice = alarm_if(most.remembers and made <= used)
                yield self.judgement("DL217", places, verdict, "", voice, optimizer=most.kind, steps=made)
