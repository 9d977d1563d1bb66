"""Passes on what a command prints, and keeps its last lines."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque

_LINES = 20  # that are kept
_LONGEST = 200  # characters of a line that are kept
_PATIENCE = 2.0  # seconds after the end of a command, for what it has started may hold its output open


class Reader:
    """Reads the output of a child in a thread of its own, as it comes."""

    def __init__(self, child: subprocess.Popen[bytes], is_shown: bool) -> None:
        self._child = child
        self._is_shown = is_shown and _has_descriptor()
        self._lines: deque[bytes] = deque(maxlen=_LINES)
        self._rest = b""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def last_lines(self) -> list[str]:
        """The last lines that are not empty, once the child has ended."""
        self._thread.join(_PATIENCE)
        lines = [line.decode(errors="replace").rstrip()[:_LONGEST] for line in (*self._lines, self._rest)]
        return [line for line in lines if line]

    def _read(self) -> None:
        assert self._child.stdout is not None
        source = self._child.stdout.fileno()
        while part := os.read(source, 65536):
            if self._is_shown:
                self._show(part)
            *lines, self._rest = (self._rest + part).split(b"\n")
            self._lines.extend(line.rstrip(b"\r").rpartition(b"\r")[2] for line in lines)  # the last state of a bar
            self._rest = self._rest.rpartition(b"\r")[2] or self._rest[-_LONGEST:]

    def _show(self, part: bytes) -> None:
        try:
            sys.stderr.flush()
            while part:
                part = part[os.write(sys.stderr.fileno(), part) :]
        except (OSError, ValueError):  # nobody reads it any more
            self._is_shown = False


def _has_descriptor() -> bool:
    try:
        return sys.stderr is not None and sys.stderr.fileno() >= 0
    except (OSError, ValueError):
        return False
