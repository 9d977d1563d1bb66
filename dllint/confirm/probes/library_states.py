"""DL706 and DL709: what libraries save and load beside weights: the states of optimizers in distributed checkpoints,
and schedulers that Accelerate does not know of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from torch.optim import Optimizer

from dllint.confirm.evidence import Judgement, Stack, Verdict, Voice
from dllint.confirm.probes.base import Probe
from dllint.confirm.probes.contents import dicts, tensors
from dllint.events import SchedulerStep, StateRestored, StateSaved

_DEPTH = 5  # dicts inside of what is read


@dataclass(slots=True)
class _Read:
    """A distributed checkpoint with the state of an optimizer that was read, and whether an optimizer has taken it: by
    its ``load_state_dict``, or since it was read into the optimizer's own tensors."""

    stack: Stack
    step: int
    steps: int  # of all optimizers before
    is_taken: bool = False


@dataclass(slots=True, eq=False)
class _Scheduler:
    """A scheduler that has stepped, which may be gone when the run ends."""

    is_saved_by_hand: bool = False


@dataclass(slots=True)
class _Saved:
    """States that Accelerate saved at one place, and the schedulers that were and were not among them."""

    states: int = 0
    known: set[_Scheduler] = field(default_factory=set)
    missing: set[_Scheduler] = field(default_factory=set)
    last: int = 0


class LibraryStates(Probe):
    """Listens to what is saved and read, and to what steps."""

    name = "library_states"

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._read: list[_Read] = []
        self._schedulers: WeakKeyDictionary[Any, _Scheduler] = WeakKeyDictionary()
        self._saved: dict[Stack, _Saved] = {}

    def on_sharded_read(self, state: Any, stack: Stack) -> None:
        if any("param_groups" in part for part in dicts(state)):
            self._read.append(_Read(stack, self.run.steps, self.run.all_steps, self._is_in_place(state)))

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

    def on_state_restored(self, event: StateRestored[Any]) -> None:
        if isinstance(event.target, Optimizer):
            for read in self._read:
                read.is_taken = read.is_taken or read.steps == self.run.all_steps

    def on_scheduler_step(self, event: SchedulerStep[Any]) -> None:
        scheduler: Any = event.scheduler
        if scheduler not in self._schedulers:
            self._schedulers[scheduler] = _Scheduler()

    def on_state_saved(self, event: StateSaved[Any]) -> None:
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
        saved = self._saved.setdefault(stack, _Saved())
        saved.states += 1
        for scheduler, each in self._schedulers.items():
            if id(getattr(scheduler, "optimizer", None)) in own:
                (saved.known if id(scheduler) in known else saved.missing).add(each)
        saved.last = self.run.steps

    def judge(self) -> Iterator[Judgement]:
        for read in self._read:
            if read.steps < self.run.all_steps:
                what = "was given to an optimizer" if read.is_taken else "was given to none before the next step"
                yield self._judgement(
                    "DL706",
                    "REFUTED" if read.is_taken else "CONFIRMED",
                    f"the state of an optimizer was read from a distributed checkpoint, and {what}",
                    "a step before any optimizer takes a state; else refuted",
                    read.stack,
                    read.step,
                    "note",
                )
        for stack, saved in self._saved.items():
            if saved.known or saved.missing:
                missing = [each for each in saved.missing if not each.is_saved_by_hand]
                yield self._judgement(
                    "DL709",
                    "CONFIRMED" if missing else "REFUTED",
                    f"{len(missing)} of {len(saved.known | saved.missing)} schedulers were neither prepared nor "
                    f"registered when Accelerate saved its state, {saved.states} times, nor are they saved by hand",
                    "any that has stepped; none refutes",
                    stack,
                    saved.last,
                    "alarm",
                )

    def _judgement(
        self, rule: str, verdict: Verdict, what: str, threshold: str, stack: Stack, step: int, voice: Voice
    ) -> Judgement:
        return Judgement(rule, self.name, verdict, what, threshold, {}, 1, (step, self.run.steps), (stack,), voice)
