"""DL706 and DL709: what libraries save and load beside weights: the states of optimizers in distributed checkpoints,
and schedulers that Accelerate does not know of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from torch.optim import Optimizer

from dllint.confirm.inside.parts import dicts, tensors
from dllint.confirm.probes.base import Judgements, PlaceProbe, Samples, decided
from dllint.confirm.probes.events import SchedulerStep, Stack, StateRestored, StateSaved

_DEPTH = 5  # dicts inside of what is read


@dataclass(slots=True, eq=False)
class _Read(Samples):
    """A distributed checkpoint with the state of an optimizer that was read, and whether an optimizer has taken it: by
    its ``load_state_dict``, or since it was read into the optimizer's own tensors."""

    steps: int = 0  # of all optimizers before
    is_taken: bool = False


@dataclass(slots=True, eq=False)
class _Scheduler:
    """A scheduler that has stepped, which may be gone when the run ends."""

    is_saved_by_hand: bool = False


@dataclass(slots=True, eq=False)
class _Saved(Samples):
    """States that Accelerate saved at one place, and the schedulers that were and were not among them."""

    known: set[_Scheduler] = field(default_factory=set)
    missing: set[_Scheduler] = field(default_factory=set)


class LibraryStates(PlaceProbe[_Saved]):
    def begin(self) -> None:
        self._read: list[_Read] = []
        self._schedulers: WeakKeyDictionary[Any, _Scheduler] = WeakKeyDictionary()

    def on_sharded_read(self, state: Any, stack: Stack) -> None:
        if any("param_groups" in part for part in dicts(state)):
            read = _Read(stacks=(stack,), first=self.run.steps, steps=self.run.all_steps, looks=1)
            read.is_taken = self._is_in_place(state)
            self._read.append(read)

    def _is_in_place(self, state: Any) -> bool:
        """Whether what was read into is the state of an optimizer itself."""
        read = {tensor.data_ptr() for tensor in tensors(state, _DEPTH) if tensor.numel() > 1}
        optimizers = [tracked.optimizer for tracked in self.run.gradients.tracked]
        return any(
            tensor.data_ptr() in read
            for optimizer in optimizers
            if optimizer is not None
            for tensor in tensors(dict(optimizer.state))
        )

    def on_state_restored(self, event: StateRestored) -> None:
        if isinstance(event.target, Optimizer):
            for read in self._read:
                read.is_taken = read.is_taken or read.steps == self.run.all_steps

    def on_scheduler_step(self, event: SchedulerStep) -> None:
        if event.scheduler not in self._schedulers:
            self._schedulers[event.scheduler] = _Scheduler()

    def on_state_saved(self, event: StateSaved) -> None:
        states = [part for part in dicts(event.content) if "last_epoch" in part]
        for scheduler, known in self._schedulers.items() if states else ():
            epoch, rates = scheduler.last_epoch, getattr(scheduler, "base_lrs", None)
            is_among = any(state["last_epoch"] == epoch and state.get("base_lrs") == rates for state in states)
            known.is_saved_by_hand = known.is_saved_by_hand or is_among

    def on_accelerator_save(self, accelerator: Any, stack: Stack) -> None:
        prepared = [getattr(each, "scheduler", each) for each in getattr(accelerator, "_schedulers", [])]
        known = {id(each) for each in (*prepared, *getattr(accelerator, "_custom_objects", []))}
        optimizers = getattr(accelerator, "_optimizers", [])
        own = {id(each) for each in optimizers} | {id(getattr(each, "optimizer", each)) for each in optimizers}
        saved = self.at(stack)
        for scheduler, each in self._schedulers.items():
            if id(getattr(scheduler, "optimizer", None)) in own:
                (saved.known if id(scheduler) in known else saved.missing).add(each)

    def judge(self) -> Judgements:
        for read in self._read:
            if read.steps < self.run.all_steps:
                read.last = self.run.steps
                told = "was given to an optimizer" if read.is_taken else "was given to none before the next step"
                yield self.judgement("DL706", read, decided(not read.is_taken, True), told)
        yield from super().judge()

    def judge_each(self, seen: _Saved) -> Judgements:
        if schedulers := len(seen.known | seen.missing):
            seen.looks = 1
            missing = sum(not each.is_saved_by_hand for each in seen.missing)
            yield self.judgement("DL709", seen, decided(missing, True), missing=missing, schedulers=schedulers)
