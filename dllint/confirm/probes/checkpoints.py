"""What is in the checkpoints, and where they go: those that scripts save (DL701, DL704, DL717), distributed ones, whose
states of optimizers are read back (DL706), and those of Accelerate, which does not know of all schedulers (DL709)."""

from __future__ import annotations

import os
import tempfile
from typing import Any
from weakref import WeakKeyDictionary

from dllint.confirm.inside.parts import dicts, has_optimizer, tensors
from dllint.confirm.probes.base import Judgements, Optimizer, PlaceProbe, Samples, Tensor, decided, events, stack_of
from dllint.confirm.probes.events import Stack

_PASSING = ("/tmp", "/var/tmp", "/dev/shm", "/content", "/kaggle/temp", "/scratch/local")  # gone with the machine
_LASTING = ("/content/drive",)
_PREFIXES = ("module.", "_orig_mod.")
_DEPTH = 5  # dicts inside of what is read


class _Saved(Samples):
    """What was saved last at one place; the schedulers that were and were not among it, where Accelerate saved it."""

    facts: dict[str, Any] = {}
    known: set[Samples] = set()
    missing: set[Samples] = set()


class _Read(Samples):
    """A distributed checkpoint with the state of an optimizer that was read, and whether an optimizer has taken it: by
    its ``load_state_dict``, or since it was read into the optimizer's own tensors."""

    steps: int = 0  # of all optimizers before
    is_taken: bool = False


class Checkpoints(PlaceProbe[_Saved]):
    _read: list[_Read] = []
    _schedulers: WeakKeyDictionary[Any, Samples] = WeakKeyDictionary()  # that have stepped; looks: saved by hand

    def on_scheduler_step(self, event: events.SchedulerStep) -> None:
        self._schedulers.setdefault(event.scheduler, Samples())

    def on_state_saved(self, event: events.StateSaved) -> None:
        content = event.content
        states = list(dicts(content))
        weights = [state for state in states if state and all(isinstance(value, Tensor) for value in state.values())]
        self.at(stack_of(event)).facts = {
            "weights": len(weights),
            "optimizers": sum("param_groups" in state and "state" in state for state in states),
            "alone": content in weights if isinstance(content, dict) else False,
            "wrapped_keys": sum(str(key).startswith(_PREFIXES) for state in weights for key in state),
            "passing_place": _is_passing(event.path) if has_optimizer(content) else None,
        }
        schedules = [state for state in states if "last_epoch" in state]
        for scheduler, known in self._schedulers.items() if schedules else ():
            epoch, rates = scheduler.last_epoch, getattr(scheduler, "base_lrs", None)
            known.looks += any(state["last_epoch"] == epoch and state.get("base_lrs") == rates for state in schedules)

    def on_accelerator_save(self, accelerator: Any, stack: Stack) -> None:
        prepared = [getattr(each, "scheduler", each) for each in getattr(accelerator, "_schedulers", [])]
        known = {id(each) for each in (*prepared, *getattr(accelerator, "_custom_objects", []))}
        optimizers = getattr(accelerator, "_optimizers", [])
        own = {id(each) for each in optimizers} | {id(getattr(each, "optimizer", each)) for each in optimizers}
        saved = self.at("accelerate", stack)
        for scheduler, each in self._schedulers.items():
            if id(getattr(scheduler, "optimizer", None)) in own:
                (saved.known if id(scheduler) in known else saved.missing).add(each)

    def on_sharded_read(self, state: Any, stack: Stack) -> None:
        if any("param_groups" in part for part in dicts(state)):
            optimizers = [tracked.optimizer for tracked in self.run.gradients.tracked]
            own = [dict(optimizer.state) for optimizer in optimizers if optimizer is not None]
            read = {tensor.data_ptr() for tensor in tensors(state, _DEPTH) if tensor.numel() > 1}
            is_in_place = any(tensor.data_ptr() in read for held in own for tensor in tensors(held))
            seen = _Read(stacks=(stack,), first=self.run.steps, steps=self.run.all_steps, looks=1, is_taken=is_in_place)
            self._read.append(seen)

    def on_state_restored(self, event: events.StateRestored) -> None:
        if isinstance(event.target, Optimizer):
            for read in self._read:
                read.is_taken = read.is_taken or read.steps == self.run.all_steps

    def judge(self) -> Judgements:
        for read in self._read:
            if read.steps < self.run.all_steps:
                read.last = self.run.steps
                yield self.judgement("DL706", read, decided(not read.is_taken, True))
        yield from super().judge()

    def judge_each(self, seen: _Saved) -> Judgements:
        facts, seen.looks = seen.facts, 1
        if schedulers := len(seen.known | seen.missing):
            missing = sum(not each.looks for each in seen.missing)
            yield self.judgement("DL709", seen, decided(missing, True), missing=missing, schedulers=schedulers)
        if facts.get("weights"):
            yield self.judgement("DL717", seen, decided(facts["wrapped_keys"], True), **facts)
            yield self.judgement("DL701", seen, decided(not facts["optimizers"], True), **facts)
        if facts.get("passing_place") is not None:
            yield self.judgement("DL704", seen, decided(facts["passing_place"], True), **facts)


def _is_passing(path: Any) -> bool:
    """Whether the script names a folder that does not outlive the machine."""
    if not isinstance(path, (str, os.PathLike)) or not os.path.isabs(path):
        return False
    here, text = os.path.join(os.getcwd(), ""), os.fspath(path)
    roots = [root + os.sep for root in (*_PASSING, tempfile.gettempdir())]
    lasts = any(str(text).startswith(root + os.sep) for root in _LASTING)
    return not lasts and any(str(text).startswith(root) and not here.startswith(root) for root in roots)
