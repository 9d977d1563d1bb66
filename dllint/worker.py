"""The part of a run that happens in one process: analyze some files, one after the other, with shared caches.

A worker gets paths and settings, never rule objects, and loads the rules itself.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from dllint.collector import relax_collector
from dllint.config.settings import Settings
from dllint.engine import Engine
from dllint.files.source import SourceError
from dllint.findings import Problem
from dllint.interp.memory import forget_trees, return_memory
from dllint.interp.run.machine import LimitError
from dllint.interp.source.facts import Facts, load_facts
from dllint.interp.source.module import SourceModule
from dllint.interp.source.project import Project
from dllint.interp.source.search_path import project_root
from dllint.outcomes import Analysis, Outcome
from dllint.registry import list_rules
from dllint.rule_table import Described
from dllint.syntax.directives import mentions_suppression

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event

T = TypeVar("T")

_STACK = 512 * 1024 * 1024
_RECURSION_LIMIT = 20_000

# The interpreter keeps to the time limit of a file itself. What does not, such as a rule of the project that loops
# for ever, is interrupted after so many times the limit. That is CPU time, and this is time on the clock:
# a busy machine gives a process only a part of itself.
_PATIENCE = 4
_GLANCE = 0.1  # seconds between two looks at the clock
_FAREWELL = 0.5  # seconds that a thread has to come to an end when it is told to

# What bounds the memory of a process, however many files it is given.
_PARSED = 2_000_000  # characters of source whose syntax trees are kept: about 40 bytes of memory each
_READ = 60_000_000  # characters of source that are kept: packed, with what is known of them, 3 bytes each
_YOUNG = 1_000_000  # objects made since garbage was collected last


class Worker:
    """Analyzes files under one configuration. Modules are read and parsed once, however many files import them."""

    def __init__(self, settings: Settings, working_directory: Path, overlay: Mapping[Path, str] | None = None) -> None:
        self._settings = settings
        self._working_directory = working_directory
        self._overlay = dict(overlay or {})
        self._projects: dict[Path, Project] = {}
        self._roots: dict[Path, Path] = {}
        self._engine = self._new_engine()
        self._overdue = float("inf")
        self._was_interrupted = False

    def _new_engine(self) -> Engine:
        return Engine(*self._equipment())

    def _equipment(self) -> tuple[Facts, list[Described], Settings]:
        settings = self._settings
        rules = list_rules(settings.rule_paths, settings.plugins)
        return load_facts(settings.knowledge), [rule for rule in rules if rule.code in settings.enabled], settings

    def analyse(self, file: Path) -> Outcome:
        """Analyze one file. What cannot be read, or takes too long, is told in the outcome and is no exception."""
        self._overdue = time.monotonic() + _PATIENCE * self._settings.time_limit
        try:
            return self._analyse(file)
        except LimitError:
            message = f"not analyzed: more than {self._settings.time_limit:g} s (time-limit)"
            return Outcome(file, Analysis(problems=[Problem("limit", message, str(file))]))
        finally:
            self._overdue = float("inf")
            if self._was_interrupted:  # whatever was being worked out then is not to be relied upon
                self._projects, self._engine, self._was_interrupted = {}, self._new_engine(), False

    def analyse_next(self, file: Path) -> Outcome:
        """Analyze one of any number of files, in a bounded amount of memory."""
        self._stay_small(coming=_size_of(file))
        outcome = self.analyse(file)
        self._stay_small()
        return outcome

    def _stay_small(self, coming: int = 0) -> None:
        """Let go of syntax trees once there are many of them, and of garbage once there is much of it.

        Trees of as many characters as ``coming`` have to find room as well: that of a very long file is not made beside
        all those that others have left.

        They are made again where the next file needs them. What was made out of them is little, and stays, as it took
        long: what is imported, and which words the definitions reach.
        """
        projects = self._projects.values()
        if sum(project.characters_read for project in projects) > _READ:
            self._projects, self._engine = {}, self._new_engine()
            gc.collect()
            return_memory()
        elif (parsed := sum(project.characters_parsed for project in projects)) and parsed + coming > _PARSED:
            for project in projects:
                project.forget_trees()
                self._engine.forget_trees(project)
            forget_trees()
            gc.collect()
            return_memory()
        elif gc.get_count()[0] > _YOUNG:
            gc.collect(0)

    def interrupt(self) -> None:
        """Stop the analysis that is under way on another thread, soon; its outcome is of no use."""
        self._engine.interrupt()

    def interrupt_if_overdue(self, thread: int) -> None:
        """Stop the analysis that runs on a thread (by its identifier) if it goes on for far longer than it may."""
        if time.monotonic() > self._overdue:
            self._overdue += self._settings.time_limit
            self._was_interrupted = True
            _raise_in(thread, LimitError)

    def _analyse(self, file: Path) -> Outcome:
        project = self._project(file)
        try:
            module = project.load(file)
        except SourceError as error:
            return Outcome(file, Analysis(problems=[Problem(error.kind, str(error), str(file))]))
        analysis = self._engine.analyse(module, project)
        dependencies = tuple((path, project.digest(path)) for path in analysis.dependencies)
        comments = mentions_suppression(module.source.text)
        return Outcome(file, analysis, module.source.digest, comments, dependencies)

    def change(self, file: Path, text: str | None, module: SourceModule | None = None) -> None:
        """Take a file to have another unsaved text from now on, or none. It must be on disk or in the overlay.

        Where the text has been made a ``module`` already, that one is used.
        """
        if text is None:
            self._overlay.pop(file, None)
        else:
            self._overlay[file] = text
        for project in self._projects.values():
            old = project.change(file, text, module)
            if old is not None:
                self._engine.forget(old, project)

    def _project(self, file: Path) -> Project:
        root = self._roots.get(file.parent)
        if root is None:
            root = self._roots[file.parent] = project_root(file, self._working_directory, self._settings.root)
        project = self._projects.get(root)
        if project is None:
            project = self._projects[root] = Project(root, self._overlay)
        return project


def _size_of(file: Path) -> int:
    """The size of a file in bytes; none if it cannot be told, which who reads it will report."""
    try:
        return os.stat(file).st_size if file.suffix == ".py" else 0  # most of a notebook is pictures
    except OSError:
        return 0


def in_deep_thread(function: Callable[[], T], watch: Callable[[int], None]) -> T:
    """Run something on a thread whose stack is large enough for deeply nested code.

    Args:
        function: what to run.
        watch: called every now and then, with the identifier of the thread. What it raises ends the thread, too.
    """
    results: list[T] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(function())
        except BaseException as error:
            failures.append(error)

    limit, size = sys.getrecursionlimit(), threading.stack_size(_STACK)
    sys.setrecursionlimit(max(limit, _RECURSION_LIMIT))
    thread = threading.Thread(target=run, name="dllint", daemon=True)
    try:
        thread.start()
        while thread.is_alive():
            thread.join(_GLANCE)
            watch(thread.ident or 0)
    except BaseException:
        _raise_in(thread.ident or 0, KeyboardInterrupt)
        thread.join(_FAREWELL)
        raise
    finally:
        threading.stack_size(size)
        sys.setrecursionlimit(limit)
    if failures:
        raise failures[0]
    return results[0]


def _raise_in(thread: int, exception: type[BaseException]) -> None:
    """Raise an exception in a thread, given by its identifier, once it is back from what is not Python."""
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(exception))


_worker: Worker | None = None
_stop: Event | None = None


def start(settings: Settings, working_directory: Path, overlay: Mapping[Path, str], stop: Event) -> None:
    """Make this process a worker, which hands in what it has when ``stop`` is set. Ctrl-C is left to its parent."""
    global _worker, _stop
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    relax_collector()
    _worker, _stop = Worker(settings, working_directory, overlay), stop


def analyse_chunk(files: Sequence[Path]) -> list[Outcome]:
    """Analyze some files in this worker process; only the first ones if it is told to stop."""
    assert _worker is not None and _stop is not None
    worker, stop = _worker, _stop
    outcomes: list[Outcome] = []

    def analyse() -> None:
        outcomes.extend(map(worker.analyse_next, files))  # one by one

    def watch(thread: int) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        worker.interrupt_if_overdue(thread)

    with suppress(KeyboardInterrupt):
        in_deep_thread(analyse, watch)
    return list(outcomes)
