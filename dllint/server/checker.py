"""Runs the analysis beside the event loop: one thread, always on the latest texts, results as they come."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from dllint.interp.memory import forget_trees
from dllint.server.documents import Documents
from dllint.server.session import Result
from dllint.server.workspace import Workspace

T = TypeVar("T")

_STACK = 512 * 1024 * 1024  # deeply nested code is interpreted recursively
_RECURSION_LIMIT = 20_000
_IDLE = 0.5  # seconds without an edit after which there is time to tidy up
_GLANCE = 1.0  # seconds between two looks at whether a check goes on for too long
_FEW, _MANY = 20, 100  # checks after which to tidy up when there is time, and in any case

_log = logging.getLogger(__name__)

Show = Callable[[Path, Result], None]


class Checker:
    """Checks what is open whenever it has changed.

    Args:
        documents: what is open.
        workspace: its projects.
        show: called on the event loop with each file whose result has changed.
        tell: called on the event loop with messages for the user.
    """

    def __init__(self, documents: Documents, workspace: Workspace, show: Show, tell: Callable[[str], None]) -> None:
        self._documents = documents
        self._workspace = workspace
        self._show = show
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._executor, self._thread = _deep_executor()
        self._task: asyncio.Task[None] | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._idle_task: asyncio.Task[None] | None = None
        self._outdated = False
        self._checks = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._held_back: dict[Path, Result] = {}  # of a text that the editor does not have, or may have again
        self.results: dict[Path, Result] = {}

    def poke(self) -> None:
        """Something has changed: check again, as soon as the check that may be under way has come to an end."""
        self._outdated = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._workspace.interrupt()
        if self._task is None or self._task.done():
            self._task = self._loop.create_task(self._run())

    def forget(self, path: Path) -> None:
        """A document was closed: its result is to be shown again if it is opened again before the next check."""
        if path in self.results:
            self._held_back[path] = self.results.pop(path)

    async def settled(self) -> None:
        """Wait until what is open has been checked as it is now.

        Every file may have findings that begin in another one, so nothing is settled before all is.
        """
        while self._task is not None and not self._task.done():
            waiting = self._loop.create_future()
            self._waiting.append(waiting)
            await waiting

    async def run(self, function: Callable[[], T]) -> T:
        """Run something on the thread of the analysis, between two checks."""
        return await self._loop.run_in_executor(self._executor, function)

    def close(self) -> None:
        """Let the thread end."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        watching = self._loop.create_task(self._watch())
        while self._outdated:
            self._outdated = False
            texts = self._documents.texts()
            try:
                await self.run(lambda texts=texts: self._check(texts))  # type: ignore[misc]
                if not self._outdated:
                    self._show_held_back()
            except Exception as error:
                _log.exception("the check failed")
                self._tell(f"dllint failed: {type(error).__name__}: {error}")
                await self.run(self._workspace.reload)  # what sessions know may be half done
            self._checks += 1
            if self._checks >= _MANY:
                await self._tidy()
        watching.cancel()
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)
        for message in self._workspace.take_messages():
            self._tell(message)
        self._idle_timer = self._loop.call_later(_IDLE, self._when_idle)

    async def _watch(self) -> None:
        """Look, every now and then, whether the check has got stuck."""
        while True:
            await asyncio.sleep(_GLANCE)
            self._workspace.watch(self._thread)

    def _when_idle(self) -> None:
        if self._checks >= _FEW and not self._outdated and self._idle_task is None:
            self._idle_task = self._loop.create_task(self._tidy())

    async def _tidy(self) -> None:
        self._checks = 0
        await self.run(tidy)
        self._idle_task = None

    def _check(self, texts: dict[Path, str]) -> None:
        for path, result in self._workspace.check(texts, lambda: self._outdated):
            self._loop.call_soon_threadsafe(self._arrived, path, result, texts[path])

    def _arrived(self, path: Path, result: Result, text: str) -> None:
        document = self._documents.at(path)
        if document is None or document.source != text:
            self._held_back[path] = result  # edited since: the next result is about what it is now
            return
        self._held_back.pop(path, None)
        self.results[path] = result
        self._show(path, result)

    def _show_held_back(self) -> None:
        """Show what was held back: all is checked as it is now, so that its edits have been taken back since.

        A session gives no result twice, and does not see an edit that is taken back before the next check.
        """
        held_back, self._held_back = self._held_back, {}
        for path, result in held_back.items():
            if self._documents.at(path) is not None:
                self.results[path] = result
                self._show(path, result)


def tidy() -> None:
    """Let go of what old versions of files have left behind."""
    forget_trees()
    gc.collect()


def _deep_executor() -> tuple[ThreadPoolExecutor, int]:
    """An executor of one thread with a large stack, and the identifier of that thread."""
    sys.setrecursionlimit(max(sys.getrecursionlimit(), _RECURSION_LIMIT))
    size = threading.stack_size(_STACK)
    executor = ThreadPoolExecutor(1, "dllint")
    try:
        thread = executor.submit(_settle_in).result()
    finally:
        threading.stack_size(size)
    return executor, thread


def _settle_in() -> int:
    """Collect garbage only where :func:`tidy` does: going through long-lived trees in between costs time.

    Returns the identifier of the thread.
    """
    gc.freeze()
    gc.disable()
    return threading.get_ident()
