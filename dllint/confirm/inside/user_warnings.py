"""The warnings of the user: they name the lines of the user's, though observers stand between these and torch, and none
come of what dllint computes."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from types import FrameType
from typing import Any

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep
_SILENT: list[Any] = [("ignore", None, Warning, None, 0)]
_filters: list[Any] = []  # those of the user, while dllint is at something of its own


def be_silent() -> None:
    """Show no warnings. What ``warnings.catch_warnings`` does would have those of the user shown a second time."""
    global _filters
    if warnings.filters is not _SILENT:
        _filters, warnings.filters = warnings.filters, _SILENT  # type: ignore[assignment]


def speak_again() -> None:
    """Show them again."""
    if warnings.filters is _SILENT:
        warnings.filters = _filters


def keep_places() -> None:
    """Leave the frames of observers out where a warning says how many frames further out it belongs."""
    original = warnings.warn

    @functools.wraps(original)
    def warn(message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **named: Any) -> None:
        level = _real_level(sys._getframe(1), stacklevel)
        return original(message, category, level + 1, source, **named)  # one more for this function

    warnings.warn = warn


def _real_level(frame: FrameType | None, level: int) -> int:
    """The number of frames that have to be counted to leave those of observers out."""
    real, left = 0, max(level, 1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not ("importlib" in name and "_bootstrap" in name):  # which Python leaves out itself
            real += 1
            left -= not name.startswith(_OWN)
        if not left:
            return real
        frame = frame.f_back
    return max(level, 1)
