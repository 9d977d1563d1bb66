"""DL301: the share of weight decay in gradients."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Any

from torch.optim import Optimizer

from dllint.confirm.evidence import Judgement
from dllint.confirm.probes.base import ENOUGH, Probe
from dllint.confirm.probes.gradients import Tracked
from dllint.events import OptimizerStep

_COUPLED = ("Adam", "NAdam", "RAdam")
_STRONG, _WEAK = 0.03, 0.005


class Decay(Probe):
    """DL301: how much of the gradient is weight decay."""

    name = "decay"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._shares: dict[Tracked, list[float]] = {}

    def on_optimizer_step(self, event: OptimizerStep[Any]) -> None:
        optimizer: Optimizer = event.optimizer
        tracked = self.run.gradients.of(optimizer)
        if tracked.kind not in _COUPLED or (tracked.steps > ENOUGH and tracked.steps % self.run.every):
            return
        shares = [
            float(group["weight_decay"] * parameter.norm() / parameter.grad.norm())
            for group in optimizer.param_groups
            if group.get("weight_decay") and not group.get("decoupled_weight_decay")
            for parameter in group["params"]
            if parameter.grad is not None and bool(parameter.grad.any())
        ]
        if shares:
            self._shares.setdefault(tracked, []).append(median(shares))

    def judge(self) -> Iterator[Judgement]:
        for tracked, shares in self._shares.items():
            share = median(shares)
            enough = len(shares) >= ENOUGH
            verdict = "CONFIRMED" if share >= _STRONG else "REFUTED" if share <= _WEAK else "INCONCLUSIVE"
            yield Judgement(
                "DL301",
                self.name,
                verdict if enough else "INCONCLUSIVE",  # type: ignore[arg-type]
                f"weight decay is {share:.3g} of the gradient of the median parameter of {tracked.kind}",
                "0.03 or more; 0.005 or less refutes",
                {"share": share, "sampled": len(shares)},
                len(shares),
                (0, tracked.steps),
                (tracked.made,) if tracked.made else (),
                "note",
            )
