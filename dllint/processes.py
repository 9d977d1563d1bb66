"""Several processes that analyze files, and what becomes of them on Ctrl-C.

A run that is interrupted ends within a second and keeps what is done: its processes, which leave Ctrl-C to their
parent, are told to hand in what they have, and then killed.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dllint.config.settings import Settings
from dllint.outcomes import Outcome
from dllint.registry import load_rules

if TYPE_CHECKING:
    from concurrent.futures import Future

_GLANCE = 0.1  # seconds between two looks at whether the run is interrupted
_FAREWELL = 0.6  # seconds that processes have to hand in what they have done when it is
_SHIFT = 8_000_000  # bytes of Python source that one process analyzes, about


def shifts_of(files: Sequence[Path], processes: int) -> list[Sequence[Path]]:
    """The files in their order, in parts after each of which new processes go on: few projects have more than one.

    What a process lets go of lies scattered between what it keeps, and goes back to the system only with its end: of
    256 MB that are resident after 500 files of transformers and all that is known of them forgotten, 18 are in use.
    """
    weight = sum(_size(file) for file in files if file.suffix == ".py")  # most of a notebook is pictures
    return list(chunks_of(files, max(1, round(weight / (_SHIFT * processes)))))


def chunks_of(files: Sequence[Path], number: int) -> Iterator[Sequence[Path]]:
    """The files in their order, in about so many parts of equal weight: neighbors import the same."""
    weights = [_size(file) for file in files]
    limit = sum(weights) / number
    start, weight = 0, 0
    for end, more in enumerate(weights, 1):
        weight += more
        if weight >= limit or end == len(files):
            yield files[start:end]
            start, weight = end, 0


def _size(file: Path) -> int:
    """The bytes of a file, and some for having it; what cannot be read costs nothing."""
    try:
        return file.stat().st_size + 1000
    except OSError:
        return 0


class Pool:
    """Processes that analyze files; a context manager. None is left behind, whatever it is at.

    Args:
        count: how many.
        settings: the configuration.
        equipment: what else each of them is made a worker with.
    """

    def __init__(self, count: int, settings: Settings, *equipment: Any) -> None:
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import active_children, get_context

        from dllint.worker import start

        context = get_context()
        if context.get_start_method() == "fork":
            load_rules(settings.rule_paths, settings.plugins)  # once for all of them
        self._stop = context.Event()
        self._others = set(active_children())
        self._executor = ProcessPoolExecutor(count, context, start, (settings, *equipment, self._stop))

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._stop.is_set() or exception[0] is not None:
            from multiprocessing import active_children

            for process in set(active_children()) - self._others:
                process.kill()
        self._executor.shutdown(cancel_futures=True)

    def analyse(
        self, chunks: Iterable[Sequence[Path]], lost: list[Path], interrupted: threading.Event
    ) -> Iterator[Outcome]:
        """The outcomes of all chunks as they come, or of what is done of them when the run is interrupted.

        The files of chunks whose worker died go to ``lost``.
        """
        from concurrent.futures import FIRST_COMPLETED, wait

        from dllint.worker import analyse_chunk

        with _interrupts_blocked():  # as new processes would take them for theirs
            running = {self._executor.submit(analyse_chunk, chunk): chunk for chunk in chunks}
        pending = set(running)
        while pending and not interrupted.is_set():
            done, pending = wait(pending, _GLANCE, FIRST_COMPLETED)
            yield from self._results(done, running, lost)
        if pending:
            self._stop.set()
            done, _ = wait(pending, _FAREWELL)
            yield from self._results(done, running, [])

    def _results(
        self,
        done: Iterable[Future[list[Outcome]]],
        running: Mapping[Future[list[Outcome]], Sequence[Path]],
        lost: list[Path],
    ) -> Iterator[Outcome]:
        from concurrent.futures.process import BrokenProcessPool

        for future in done:
            try:
                yield from future.result()
            except BrokenProcessPool:
                lost.extend(running[future])


@contextmanager
def noting_interrupts() -> Iterator[threading.Event]:
    """Note Ctrl-C, so that nothing is torn apart, and raise KeyboardInterrupt at the end; a second one raises at once.

    Where Ctrl-C means something else, or is for another thread, nothing is noted.
    """
    noted = threading.Event()
    usual = signal.getsignal(signal.SIGINT)
    if usual is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield noted
        return

    def note(_: int, __: object) -> None:
        if noted.is_set():
            raise KeyboardInterrupt
        noted.set()

    signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, usual)
    if noted.is_set():
        raise KeyboardInterrupt


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Let no Ctrl-C through, neither here nor to processes that are started meanwhile, where that can be done."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
