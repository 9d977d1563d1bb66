"""What each rank notes, so that dllint can compare them after the run: parameters, the random numbers of some steps,
the lengths of passes, and parts of models that are saved (DL405, DL705). No communication is added. Notes it where
several ranks train: of parameters what they are before the first step and in some after it."""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

import torch.distributed as dist

from dllint.confirm.evidence import Shard
from dllint.confirm.inside.parts import tensors
from dllint.confirm.inside.workers import random_states
from dllint.confirm.probes.base import ENOUGH, Optimizer, Probe, Tensor, events, nn, stack_of

_MOST = 50  # passes of a dataset, and files


class RankComparison(Probe):
    _drawn: dict[str, str] = {}  # before the step
    _draws = 0
    _modules: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()  # and the order in which they came
    _begin: dict[str, str] = {}
    _steps = 0

    def on_model_forward(self, event: events.ModelForward) -> None:
        if event.grad == "on" and are_several_ranks():
            self._modules.setdefault(event.model, len(self._modules))
            if not self._drawn and self._draws < ENOUGH:
                self._drawn = random_states(with_devices=True)

    def before_optimizer_step(self, event: events.OptimizerStep) -> None:
        if not self._begin and self.run.steps < ENOUGH and are_several_ranks():
            self._begin = dict(self._fingerprints())
            self.run.tells_of_each_step = True  # as all ranks compare the same ones

    def on_optimizer_step(self, event: events.OptimizerStep) -> None:
        self._count()
        if self._drawn:
            self._draws += 1
            for name, after in random_states(with_devices=True).items():
                if name in self._drawn:
                    self.run.record.notes.draws.setdefault(name, []).append([self._drawn[name], after])
            self._drawn = {}

    def on_step_passed_over(self, optimizer: Optimizer) -> None:
        self._count()

    def _count(self) -> None:
        self._steps += bool(self._begin)
        if self._begin and self.is_sampled(self._steps, ENOUGH):  # in all ranks the same steps
            now = dict(self._fingerprints())
            both = self._begin.keys() & now.keys()
            self.run.record.fingerprints = {name: [self._begin[name], now[name]] for name in both}

    def _fingerprints(self) -> Iterator[tuple[str, str]]:
        for module, number in self._modules.items():
            for name, parameter in module.named_parameters():
                values = parameter.detach().double()
                numbers = f"{values.sum().item()!r} {values.square().sum().item()!r}"
                yield f"{type(module).__name__}[{number}].{name}", numbers

    def on_pass_end(self, batches: events.Batches) -> None:
        if are_several_ranks():
            lengths = self.run.record.notes.lengths.setdefault(batches.source.dataset, [])
            if len(lengths) < _MOST:
                lengths.append(batches.taken)

    def on_state_saved(self, event: events.StateSaved) -> None:
        if len(self.run.record.notes.shards) < _MOST and any(_is_part(tensor) for tensor in tensors(event.content)):
            self.run.record.notes.shards.append(Shard(str(event.path), stack_of(event)))


def are_several_ranks() -> bool:
    """Whether this process is one of several that train together."""
    return bool(dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1)


def _is_part(tensor: Tensor) -> bool:
    """Whether other ranks hold the rest of a tensor."""
    placements = getattr(tensor, "placements", ())
    mesh = getattr(tensor, "device_mesh", None)
    return mesh is not None and mesh.size() > 1 and any(placement.is_shard() for placement in placements)
