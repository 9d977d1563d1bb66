"""``--watch``: run again whenever a file changes, until Ctrl-C.

Each run is a process of its own, so that nothing piles up, and takes from the cache what has not changed.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Sequence
from multiprocessing import Process

from dllint.cli import main, streams
from dllint.config.load import FILE_NAMES
from dllint.config.schema import BASELINE_FILE
from dllint.files.discovery import is_passed_over

_SUFFIXES = (".py", ".ipynb", ".toml", ".cfg", ".lock")
_MARKERS = (".git", *FILE_NAMES)
_PAUSE = 0.3  # seconds between two looks, at least
_SHARE = 10  # of the time at most one part in so many is spent on looking
_CLEAR = "\x1b[2J\x1b[3J\x1b[H"

State = dict[str, tuple[int, int]]  # when each file was changed, and its size


def watch(words: Sequence[str], paths: Iterable[str]) -> int:
    """Run dllint now and after each change, until Ctrl-C.

    Args:
        words: those of the command line, without the one that asks for this.
        paths: the files and folders that are linted. The projects that they are in are watched.

    Returns:
        The exit code, which is 0.
    """
    tops = sorted({_top(os.path.abspath(path)) for path in paths})
    try:
        while True:
            before = _look(tops)
            if streams.is_terminal(sys.stdout):
                streams.write(_CLEAR)
            _run(words)
            streams.note(f"{time.strftime('%H:%M:%S')}: watching for changes; Ctrl-C ends this")
            _await_change(tops, before)
    except KeyboardInterrupt:
        return 0


def _run(words: Sequence[str]) -> None:
    process = Process(target=_once, args=(list(words),))
    process.start()
    try:
        process.join()
    except KeyboardInterrupt:
        process.join(2)  # it has heard of it as well, and keeps what it has done
        process.kill()
        raise


def _once(words: list[str]) -> None:
    sys.exit(main(["check", *words]))


def _await_change(tops: Sequence[str], before: State) -> None:
    """Come back when something is different and has been the same for a moment."""
    while True:
        started = time.monotonic()
        now = _look(tops)
        pause = max(_PAUSE, _SHARE * (time.monotonic() - started))
        time.sleep(pause)
        if now != before and now == _look(tops):
            return


def _look(tops: Iterable[str]) -> State:
    """The files below some folders that may bear on what is found."""
    state: State = {}
    pending = list(tops)
    while pending:
        try:
            folder = pending.pop()
            with os.scandir(folder) as entries:
                found = list(entries)
        except OSError:
            continue  # it has gone meanwhile, or is closed to us
        for entry in found:
            try:
                if entry.is_dir(follow_symlinks=False):
                    if not is_passed_over(folder, entry.name):
                        pending.append(entry.path)
                elif _bears_on_findings(entry.name):
                    status = entry.stat()
                    state[entry.path] = (status.st_mtime_ns, status.st_size)
            except OSError:
                state[entry.path] = (0, 0)
    return state


def _bears_on_findings(name: str) -> bool:
    """Whether a file of this name may. Others, of which data sets have many, are not looked at."""
    return name.endswith(_SUFFIXES) or name == BASELINE_FILE or (name.startswith("requirements") and ".txt" in name)


def _top(path: str) -> str:
    """The folder of the project that a file or folder is in: the nearest that something marks, else its own."""
    own = folder = path if os.path.isdir(path) else os.path.dirname(path)
    while not any(os.path.exists(os.path.join(folder, name)) for name in _MARKERS):
        parent = os.path.dirname(folder)
        if parent == folder:
            return own
        folder = parent
    return folder
