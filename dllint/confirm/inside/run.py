"""The run that is observed: it passes events to the probes, keeps to the budget, and writes the record."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from multiprocessing import parent_process
from multiprocessing.util import Finalize
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakKeyDictionary

import torch
from torch.optim import Optimizer
from torch.utils.data import get_worker_info

from dllint.confirm import evidence
from dllint.confirm.evidence import MARKS, RECORDS, Judgement, Line, Record, Settings, Sight, Stack
from dllint.confirm.inside.devices import is_capturing, is_device_lost, with_modes, without_modes
from dllint.confirm.inside.loaders import Feed
from dllint.confirm.inside.rests import Rests
from dllint.confirm.inside.stacks import Place, lines
from dllint.confirm.inside.user_warnings import be_silent, speak_again
from dllint.confirm.probes.base import Probe
from dllint.events import Event, name_of

if TYPE_CHECKING:
    from dllint.confirm.probes.gradients import Gradients, Tracked
    from dllint.confirm.probes.names import Names

_LONGEST_TIMELINE = 400
_LONGEST_STREAM = 5000
_TOLERATED = 3  # failures after which a probe is switched off
_IDLE_FACTOR = 20  # backward passes per step of the budget, after which a run that never steps is over
_HURRY = 5.0  # seconds that a training loop has to come to its next step when the time is over
_FAREWELL = 5.0  # seconds that a rank waits for the records of the others
_GRACE = 30.0  # seconds that the script has for its own clean-up after it was ended
_SETTLED = 100  # steps, after which observing is held to its share of the time from one to the next
_ALWAYS = 100  # calls from one place that are told, however long that takes

_name_of = cache(name_of)  # which every event is asked for


class _Inside(threading.local):
    """Whether this thread is doing something for dllint."""

    probe = False


class Run:
    """What is known about the run, and who wants to know."""

    gradients: Gradients  # the probe that the others ask about the gradients of an optimizer
    names: Names  # the probe that the others ask what parameters are called

    def __init__(self, settings: Settings) -> None:
        self.settings = settings  # how the run is bounded
        self.redirected: Callable[[], list[str]] = list
        self._kinds: Sequence[type[Probe]] = ()
        self._begin()

    def _begin(self) -> None:
        """Know nothing yet of what this process does."""
        self.steps = 0  # of the optimizer that has made the most
        self.all_steps = 0  # of all optimizers
        self.backwards = 0  # backward passes
        self.epochs = 0  # passes over data loaders
        self.ended_by = ""  # why observation is over, as in `Record`; empty until it is
        self.frozen_batches = 0  # loaders of which one batch is given again and again
        self.has_evidence = False  # though nothing is trained: a model was evaluated, or a probe knows why not
        # the script has what graphs save packed, as when layers are computed again in the backward pass: to look at it
        # would compute them once more
        self.packs = False
        self.record = Record(os.getpid(), 0, self.settings.mode, str(torch.__version__), "", "")
        self.things: dict[Stack, set[str]] = {}  # by the innermost line that they were seen at, as in `Sight`
        self._probes: list[Probe] = []
        self._listeners: dict[str, list[tuple[Probe, Callable[..., None]]]] = {}
        self._failures: Counter[str] = Counter()
        self._traces: dict[str, evidence.Trace] = {}
        self._spent = 0.0  # seconds in all
        self._steps_by_optimizer: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        self.tracked: WeakKeyDictionary[object, Tracked] = WeakKeyDictionary()  # what `gradients` knows of optimizers
        self.tells_of_each_step = False  # of those that are passed over as well
        self._process = os.getpid()
        self._started = time.perf_counter()
        self._since_step = 0  # backward passes
        self.rests = Rests(self._started)  # when what training repeats is not observed
        self.feed = Feed()  # the loaders, and what the script does with their batches
        # the calls that were told of, by the place that they come from, and how many steps there had been at the last
        self._calls: dict[tuple[int, int], tuple[int, int]] = {}
        self._is_asleep = False  # was forked, and has done nothing yet that is observed
        self._is_late = False  # the time is over
        self._is_over = False  # observation is over
        self._is_ended = False  # the script has been told to end
        self._lock = threading.Lock()  # held while the record is written
        self._inside = _Inside()

    def watch(self, probes: Sequence[type[Probe]]) -> None:
        """Let probes listen from now on, in this order."""
        self._kinds = probes
        for kind in probes:
            probe = kind(self)
            self._probes.append(probe)
            self.record.seconds[probe.name] = 0.0
            for name in vars(Probe):
                if name.startswith(("on_", "before_")) and getattr(kind, name) is not getattr(Probe, name):
                    self._listeners.setdefault(name.removeprefix("on_"), []).append((probe, getattr(probe, name)))

    def start(self) -> None:
        """Begin to keep to the time."""
        if sys.platform != "win32":
            os.register_at_fork(after_in_child=self._fall_asleep)
        self._start_clock()

    def _start_clock(self) -> None:
        if self.settings.max_seconds:
            threading.Thread(target=self._keep_time, name="dllint-confirm", daemon=True).start()

    @property
    def is_listening(self) -> bool:
        """Whether what happens now is to be told: while observation goes on, unless a probe makes it happen, or tensors
        have no values, as when a function is traced or transformed, or a graph of CUDA is captured."""
        if self._is_asleep and not self._wakes():
            return False
        if self._is_over or self._inside.probe or is_capturing():
            return False
        return not torch._C._is_tracing() and torch._C._functorch.peek_interpreter_stack() is None

    def is_due(self, frame: FrameType, *, evaluates: bool = False) -> bool:
        """Whether to tell of a call, by the place in the code that it comes from.

        While nothing rests, these are told: the first calls from each place, the first from there since an optimizer
        has stepped, and all others as long as there is time for them. A place that is new ends a rest, and so does the
        first call since a step from one that ``evaluates``: an evaluation is never passed over.
        """
        place = (id(frame.f_code), frame.f_lasti)
        number, last = self._calls.get(place, (0, -1))
        is_first = last < self.all_steps
        if not number:
            self.look_at_new()
        elif self.rests.are_on:
            if not evaluates or not is_first or not self.rests.may_be_disturbed():
                return False
            self.wake()
        self._calls[place] = number + 1, self.all_steps
        return is_first or number < _ALWAYS or self.rests.has_time()

    def end_round(self) -> None:
        """Begin or end a rest, where it is time to: at the end of a step, or of a backward pass where none steps."""
        if self.rests.are_on:
            if self.rests.are_over():
                self.wake()
        elif self.settings.mode == "observe":  # experiments have a hand in each step
            self.rests.count_round(is_settled=self.all_steps > _SETTLED)

    def wake(self) -> None:
        """End a rest, and let the probes know that they have missed something."""
        self.rests.end()
        self.guard(self.tell, "gap")

    def look_at_new(self) -> None:
        """Look closely at what has never been there, as at the beginning of a run."""
        if self.rests.are_on:
            self.wake()
        self.rests.end(for_new=True)

    def mark(self, what: str) -> None:
        """Add to the timeline one of the things of ``MARKS``."""
        if len(self.record.timeline) < _LONGEST_TIMELINE:
            self.record.timeline += MARKS[what]

    def trace(self, name: str, value: float) -> None:
        """Add a number to a trace."""
        self._traces.setdefault(name, evidence.Trace()).add(value)

    def see(self, what: str, where: Stack) -> None:
        """Note that something was at a place, for the questions of the linter."""
        self.things.setdefault(where, set()).add(what)

    def tell(self, event: str, *details: Any) -> None:
        """Tell the probes of an event, by the name of its hook without ``on_``, and take the time of each.

        This is done inside of what is guarded, and never raises an error of theirs.
        """
        begin = time.perf_counter()
        for probe, listener in self._listeners.get(event, ()):
            try:
                listener(*details)
            except Exception:
                self._note_failure(probe.name, probe)
            now = time.perf_counter()
            self.record.seconds[probe.name] += now - begin
            begin = now

    def emit(self, event: Event, *, before: bool = False) -> None:
        """Tell the probes of an event of the vocabulary, when it has happened or ``before`` it does."""
        kind: Any = type(event)
        if not before and self.settings.mode == "events" and len(self.record.told) < _LONGEST_STREAM:
            self.record.told.append(evidence.Told(name_of(kind), cast(Place, event.site).stack))
        self.tell(("before_" if before else "") + _name_of(kind), event)

    def guard(self, action: Callable[..., Any], /, *arguments: Any, **named: Any) -> None:
        """Do something of dllint's own in the user's process. Never raises its errors, nor shows its warnings."""
        begin = time.perf_counter()
        nested = self._inside.probe
        self._inside.probe = True
        be_silent()
        with_gradients = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)  # a tenth of what `torch.no_grad` costs, on every event
        try:
            with without_modes():
                action(*arguments, **named)
        except Exception:
            self._note_failure("attachment", None)
        finally:
            torch._C._set_grad_enabled(with_gradients)
            self._inside.probe = nested
            if not nested:
                speak_again()
                seconds = time.perf_counter() - begin
                self._spent += seconds
                self.rests.spend(seconds)

    def _note_failure(self, name: str, probe: Probe | None) -> None:
        if is_device_lost(sys.exc_info()[1]):
            return  # to an error of the script's, after which nothing can be read from it
        self._failures[name] += 1
        if self._failures[name] == 1:
            self.record.errors.append(evidence.ProbeError(name, traceback.format_exc()))
        if probe is not None and self._failures[name] >= _TOLERATED:
            for event, listeners in self._listeners.items():
                self._listeners[event] = [listener for listener in listeners if listener[0] is not probe]
            next(error for error in self.record.errors if error.probe == name).disabled = True

    def count_step(self, optimizer: object) -> None:
        """Note that an optimizer has stepped."""
        self.all_steps += 1
        self._since_step = 0
        steps = self._steps_by_optimizer[optimizer] = self._steps_by_optimizer.get(optimizer, 0) + 1
        self.steps = max(self.steps, steps)

    def count_backward(self) -> None:
        """Note that there was a backward pass. Raises SystemExit when the budget is spent."""
        self.backwards += 1
        self._since_step += 1
        if self._since_step > _IDLE_FACTOR:  # there is no optimizer, or it does not step
            self.end_round()
        self.keep_to_budget()

    def pass_over(self, optimizer: Optimizer) -> None:
        """Note a step that nobody looks at. Most steps are such, so that this takes less than what is guarded."""
        try:
            tracked = self.tracked.get(optimizer)
            if tracked is not None:
                tracked.steps += 1
            if self.tells_of_each_step:
                self.guard(self.tell, "step_passed_over", optimizer)
            self.count_step(optimizer)
        except Exception:
            self._note_failure("attachment", None)

    def keep_to_budget(self) -> None:
        """Raises SystemExit when the budget is spent: the time, enough steps, or many backward passes and no step."""
        budget = self.settings.steps
        if self._is_late:
            self.stop("time")
        if budget and self.steps >= budget:
            self.stop("budget")
        if budget and not self.steps and self.backwards >= _IDLE_FACTOR * budget:
            self.stop("backwards")

    def stop(self, why: str) -> None:
        """Write the record, and end the script, with exit code 0 and without a traceback. Raises SystemExit.

        Threads, processes of ``multiprocessing`` and launchers of several ranks take it for an end as any other; and
        as it is no ``Exception``, scripts do not catch it by chance. Threads ask for this very class.
        """
        self.finish(why)
        self._is_ended = True
        self.guard(self._await_ranks)
        raise SystemExit(0)

    def _await_ranks(self) -> None:
        """Let the other ranks write their records: what has started the ranks kills them when one of them ends."""
        if not torch.distributed.is_available() or not torch.distributed.is_initialized():
            return
        ranks = int(os.environ.get("LOCAL_WORLD_SIZE", torch.distributed.get_world_size()))
        deadline = time.monotonic() + _FAREWELL
        while len(list(Path(self.settings.records).glob(RECORDS))) < ranks and time.monotonic() < deadline:
            time.sleep(0.02)

    def refuse_to_go_on(self) -> None:
        """Leave the process if the script has gone on after it was told to end, in a process that it forked as well."""
        if self._is_ended:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)

    def finish(self, why: str, error: str = "") -> bool:
        """Let the probes judge, and write the record. Returns False if observation was over, or is not of this process.

        Where another thread is at it, this waits for it, so that the process does not end before.
        """
        if os.getpid() != self._process:
            return False
        with self._lock:
            if self._is_over:
                return False
            self._is_over = True
            self.ended_by = why
            if self.backwards or self.steps or self.epochs or self.has_evidence:
                self.guard(self._write_record, why, error)
            return True

    def _write_record(self, why: str, error: str) -> None:
        record = self.record
        with with_modes():
            record.judgements = [judgement for probe in self._probes for judgement in self._judgements(probe)]
        record.stop, record.error = why, error
        rank = os.environ.get("RANK", "0")  # which the script may set itself
        record.rank = int(rank) if rank.isdigit() else 0
        record.device = "cuda" if torch.cuda.is_available() else "cpu"
        record.steps, record.backwards, record.epochs = self.steps, self.backwards, self.epochs
        record.elapsed = time.perf_counter() - self._started
        record.traces = {name: trace.values for name, trace in self._traces.items()}
        record.seconds = {"attachment": self._spent, **record.seconds}
        record.redirected = self.redirected()
        things: dict[Line, set[str]] = {line: set() for line in lines()}
        for where, seen in self.things.items():
            if where:
                things[where[0]] |= seen
        record.seen = [Sight(line, sorted(seen)) for line, seen in things.items()]
        record.write(self.settings.records)

    def _judgements(self, probe: Probe) -> list[Judgement]:
        begin, judged = time.perf_counter(), list[Judgement]()
        try:
            judged.extend(probe.judge())  # which keeps what comes before an error
        except Exception:
            self._note_failure(probe.name, probe)
        self.record.seconds[probe.name] += time.perf_counter() - begin
        return judged

    def _fall_asleep(self) -> None:
        """Be quiet in a process that was forked from this one, until it does something that is observed."""
        self._is_asleep = self._is_asleep or not self._is_over
        self._is_over = True

    def _wakes(self) -> bool:
        """Begin anew in a process that was forked, unless it is a worker of a loader, which never trains."""
        if get_worker_info() is not None:
            return False
        self._is_asleep = False
        self.guard(self._begin_anew)
        return True

    def _begin_anew(self) -> None:
        self._begin()
        self.watch(self._kinds)
        self._start_clock()
        if parent_process() is not None:  # else the exit handlers of Python are run at the end
            Finalize(None, self._finish_fork, exitpriority=0)

    def _finish_fork(self) -> None:
        error = sys.exc_info()[1]
        if isinstance(error, Exception):
            self.finish("exception", f"{type(error).__name__}: {error}")
        self.finish("end")

    def _keep_time(self) -> None:
        """End the script when its time is over: at its next step, or from outside if there is none."""
        time.sleep(self.settings.max_seconds)
        self._is_late = True
        time.sleep(_HURRY)
        if self.finish("time"):
            self._is_ended = True
            stop = ctypes.py_object(SystemExit)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(threading.main_thread().ident or 0), stop)
        time.sleep(_GRACE)
        self.refuse_to_go_on()
