"""What ``load_state_dict`` loads: shapes that do not fit (DL603), names that do not (DL604), and how far weights that
were loaded go away in training (DL607)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any
from weakref import ReferenceType, WeakKeyDictionary, ref

from torch import Tensor, nn
from torch.optim import Optimizer

from dllint.confirm.evidence import Judgement, Stack
from dllint.confirm.probes.base import Load, Probe
from dllint.confirm.probes.movement import sample
from dllint.events import OptimizerStep

_HALF = 0.5  # of the parameters of a model
_FAR, _NEAR = 1.0, 0.3  # of the length of weights that were loaded
_STEPS = 100
_MATRICES = 16
_MODELS = 16


@dataclass(slots=True, eq=False)
class _Loaded:
    """What the calls at one place loaded without being strict: the least of them."""

    parameters: float = 1.0  # share of those of the model
    given: float = 1.0  # share of what was given that the model has
    names: int = 0
    mismatch: str = ""
    calls: int = 0
    was_tried: bool = False  # something else was loaded into the same model afterwards


@dataclass(slots=True, eq=False)
class _Pretrained:
    """Some matrices that were loaded into a model that has new layers beside them."""

    stack: Stack
    weights: list[tuple[ReferenceType[Tensor], Tensor]]
    steps: int = 0
    drift: float = 0.0
    rates: set[float] = field(default_factory=set)  # of the optimizer that holds them

    def look(self) -> None:
        """Compare with what was loaded."""
        pairs = [(known(), begin) for known, begin in self.weights]
        moves = [
            float((sample(p).float().to(begin.device) - begin).norm() / begin.norm())
            for p, begin in pairs
            if p is not None and bool(begin.any())
        ]
        self.drift = median(moves) if moves else self.drift


class Loading(Probe):
    """Looks at what is loaded, and at where it is later."""

    name = "loading"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._seen: dict[Stack, _Loaded] = {}
        self._pretrained: list[_Pretrained] = []
        self._tried: WeakKeyDictionary[nn.Module, list[_Loaded]] = WeakKeyDictionary()

    def on_load(self, load: Load) -> None:
        known = load.parameters | load.buffers
        loaded = len(load.given & load.parameters) / max(len(load.parameters), 1)
        if not load.strict and load.parameters:
            seen = self._seen.setdefault(load.stack, _Loaded())
            seen.calls += 1
            if "size mismatch" in load.error:
                seen.mismatch = load.error.partition("size mismatch for ")[2].partition(":")[0]
            fits = len(load.given & known) / max(len(load.given), 1)
            if not load.error and loaded <= seen.parameters:
                seen.parameters, seen.given, seen.names = loaded, fits, len(load.given)
                self._tried.setdefault(load.module, []).append(seen)
        if loaded >= _HALF and not load.error:
            for tried in self._tried.pop(load.module, []):
                tried.was_tried = tried.parameters < _HALF
        if _HALF <= loaded < 1 and not load.error and len(self._pretrained) < _MODELS:
            self._remember(load)

    def _remember(self, load: Load) -> None:
        matrices = [p for name, p in load.module.named_parameters() if name in load.given and p.dim() > 1 and p.numel()]
        kept: list[tuple[ReferenceType[Tensor], Tensor]] = [(ref(p), sample(p).float()) for p in matrices[:_MATRICES]]
        self._pretrained.append(_Pretrained(load.stack, kept))

    def on_optimizer_step(self, event: OptimizerStep[Any]) -> None:
        optimizer: Optimizer = event.optimizer
        for known in self._pretrained:
            if not known.steps or known.steps % self.run.every == 0:
                alive = {id(weight()) for weight, _ in known.weights if weight() is not None}
                if not any(id(p) in alive for group in optimizer.param_groups for p in group["params"]):
                    continue
                known.rates = {float(group.get("lr", 0.0)) for group in optimizer.param_groups}
                known.look()
            known.steps += 1

    def on_step_passed_over(self, optimizer: Optimizer) -> None:
        for known in self._pretrained:
            known.steps += bool(known.steps)

    def judge(self) -> Iterator[Judgement]:
        for stack, seen in self._seen.items():
            yield self._shapes(stack, seen)
            if not seen.mismatch:
                yield self._names(stack, seen)
        for known in self._pretrained:
            if known.steps:
                yield self._drift(known)

    def _shapes(self, stack: Stack, seen: _Loaded) -> Judgement:
        is_wrong = bool(seen.mismatch)
        what = f"{seen.mismatch} has another shape, which `strict` is not about" if is_wrong else "all shapes fit"
        return Judgement(
            "DL603",
            self.name,
            "CONFIRMED" if is_wrong else "REFUTED",
            what,
            "any that differs; none refutes",
            {"parameter": seen.mismatch, "calls": seen.calls},
            seen.calls,
            (0, self.run.steps),
            (stack,),
            "note",
        )

    def _names(self, stack: Stack, seen: _Loaded) -> Judgement:
        is_wrong = seen.parameters < _HALF and (seen.given < _HALF or not seen.names) and not seen.was_tried
        return Judgement(
            "DL604",
            self.name,
            "CONFIRMED" if is_wrong else "REFUTED",
            f"{seen.parameters:.0%} of the parameters were loaded, by {seen.given:.0%} of the {seen.names} names that "
            "were given",
            "less than half of the parameters, and of what was given, and no more later; else refuted",
            {"parameters": seen.parameters, "given": seen.given, "names": seen.names},
            seen.calls,
            (0, self.run.steps),
            (stack,),
            "alarm" if seen.names and not seen.parameters else "note",
        )

    def _drift(self, known: _Pretrained) -> Judgement:
        known.look()
        is_far = known.drift > _FAR and len(known.rates) == 1
        is_near = known.drift < _NEAR and known.steps >= _STEPS
        return Judgement(
            "DL607",
            self.name,
            "CONFIRMED" if is_far else "REFUTED" if is_near else "INCONCLUSIVE",
            f"in {known.steps} steps the median matrix that was loaded has moved by {known.drift:.3g} of its length, "
            f"with {len(known.rates)} learning rates",
            "over 1 with a single learning rate; under 0.3 after 100 steps refutes",
            {"drift": known.drift, "steps": known.steps, "rates": sorted(known.rates)},
            known.steps,
            (0, self.run.steps),
            (known.stack,),
            "note",
        )
