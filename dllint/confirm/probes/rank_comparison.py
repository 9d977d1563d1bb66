"""What each rank notes, so that dllint can compare them after the run: the random numbers of some steps, the lengths of
passes, and parts of models that are saved (DL405, DL705). No communication is added."""

from __future__ import annotations

import hashlib
import random
import sys
from typing import Any

import torch
from torch import Tensor

from dllint.confirm.evidence import Shard
from dllint.confirm.inside.parts import tensors
from dllint.confirm.inside.ranks import are_several_ranks
from dllint.confirm.probes.base import ENOUGH, Probe
from dllint.confirm.probes.events import Batches, ModelForward, OptimizerStep, StateSaved, stack_of

_MOST = 50  # passes of a dataset, and files


class RankComparison(Probe):
    """Notes it where several ranks train."""

    def begin(self) -> None:
        self._before: dict[str, str] = {}
        self._steps = 0

    def on_model_forward(self, event: ModelForward) -> None:
        if event.grad == "on" and not self._before and self._steps < ENOUGH and are_several_ranks():
            self._before = _random_states()

    def on_optimizer_step(self, event: OptimizerStep) -> None:
        if self._before:
            self._steps += 1
            for name, after in _random_states().items():
                if name in self._before:
                    self.run.record.notes.draws.setdefault(name, []).append([self._before[name], after])
            self._before = {}

    def on_pass_end(self, batches: Batches) -> None:
        if are_several_ranks():
            lengths = self.run.record.notes.lengths.setdefault(batches.source.dataset, [])
            if len(lengths) < _MOST:
                lengths.append(batches.taken)

    def on_state_saved(self, event: StateSaved) -> None:
        if len(self.run.record.notes.shards) < _MOST and any(_is_part(tensor) for tensor in tensors(event.content)):
            self.run.record.notes.shards.append(Shard(str(event.path), stack_of(event)))


def _random_states() -> dict[str, str]:
    """A digest of the state of each generator that numbers are drawn from in a step."""
    states: dict[str, Any] = {"random": random.getstate(), "torch": torch.get_rng_state().numpy().tobytes()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        states["cuda"] = torch.cuda.get_rng_state().numpy().tobytes()
    if numpy := sys.modules.get("numpy"):
        states["numpy"] = [str(part) for part in numpy.random.get_state()]
    return {name: hashlib.sha256(repr(state).encode()).hexdigest()[:12] for name, state in states.items()}


def _is_part(tensor: Tensor) -> bool:
    """Whether other ranks hold the rest of a tensor."""
    placements = getattr(tensor, "placements", ())
    mesh = getattr(tensor, "device_mesh", None)
    return mesh is not None and mesh.size() > 1 and any(placement.is_shard() for placement in placements)
