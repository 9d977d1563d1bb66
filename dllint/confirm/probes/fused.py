"""DL311: fused optimizers that step otherwise than the same optimizer does one parameter after another.

Before the first step of one, a few of its small parameters are copied with their gradients, and stepped by a twin that
is not fused. Nothing else sees the twin.
"""

from __future__ import annotations

import inspect

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from dllint.confirm.probes.base import Probe, decided
from dllint.confirm.probes.events import OptimizerStep, stack_of

_PARTS = 3  # parameters that are copied
_LARGEST = 100_000  # elements
_OFF = 1e-2  # of the learning rate


class Fused(Probe):
    def begin(self) -> None:
        self._wanted: list[tuple[Tensor, Tensor]] = []  # parameters, and what the twin makes of them
        self._rate = 0.0

    def before_optimizer_step(self, event: OptimizerStep) -> None:
        optimizer: Optimizer = event.optimizer
        group = optimizer.param_groups[0]
        if not group.get("fused") or not self.is_new(optimizer):
            return
        self._wanted = []
        is_torchs = type(optimizer).__module__.startswith("torch.optim")
        if not is_torchs or optimizer.state or getattr(optimizer, "grad_scale", None) is not None:
            return
        small = [p for p in group["params"] if p.grad is not None and p.numel() <= _LARGEST and not p.grad.is_sparse]
        chosen = sorted(small, key=torch.numel)[:_PARTS]
        if not chosen or not all(bool(p.grad.isfinite().all()) for p in chosen):
            return
        copies = [nn.Parameter(p.detach().clone()) for p in chosen]
        for copy, parameter in zip(copies, chosen, strict=True):
            copy.grad = parameter.grad.clone()
        names = inspect.signature(type(optimizer).__init__).parameters
        options = {name: value for name, value in group.items() if name in names and name not in ("self", "params")}
        twin = type(optimizer)(copies, **{**options, "fused": False, "foreach": False})
        twin.step()
        self._rate = float(group["lr"])
        self._wanted = list(zip(chosen, (copy.detach() for copy in copies), strict=True))

    def on_optimizer_step(self, event: OptimizerStep) -> None:
        wanted, self._wanted = self._wanted, []
        if wanted and self._rate:
            difference = max(float((p.detach() - copy).abs().max()) for p, copy in wanted) / self._rate
            tracked = self.run.gradients.of(event.optimizer)
            seen, verdict = tracked.seen(1, stack_of(event), tracked.made), decided(difference > _OFF, True)
            self.judged.append(self.judgement("DL311", seen, verdict, difference=difference))
