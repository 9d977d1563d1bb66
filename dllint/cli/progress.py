"""A progress bar on standard error, for runs that take long enough to make one wonder."""

from __future__ import annotations

import sys
import time

from dllint.cli import streams

_PATIENCE = 1.0  # seconds before it appears
_PAUSE = 0.1  # seconds between two states of it
_WIDTH = 30


class ProgressBar:
    """Called with the number of files done and of all files; shows nothing unless standard error is a terminal."""

    def __init__(self) -> None:
        self._is_on = streams.is_terminal(sys.stderr)
        self._next = time.monotonic() + _PATIENCE
        self._is_shown = False

    def __call__(self, done: int, total: int) -> None:
        """Show how far the run is, if it is time to."""
        if self._is_on and time.monotonic() >= self._next:
            self._next = time.monotonic() + _PAUSE
            self._is_shown = True
            bar = ("#" * (_WIDTH * done // max(total, 1))).ljust(_WIDTH, ".")
            streams.draw(f"\r{self._paint(bar)} {done}/{total} files")

    def close(self) -> None:
        """Remove the bar from the terminal."""
        if self._is_shown:
            streams.draw("\r\x1b[2K")

    def _paint(self, bar: str) -> str:
        return f"\x1b[36m{bar}\x1b[0m" if streams.has_color(sys.stderr) else bar
