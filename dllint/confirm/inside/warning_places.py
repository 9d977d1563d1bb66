"""Lets warnings tell of the line of the user's that they are about, though observers stand between it and torch."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from types import FrameType
from typing import Any

_OWN = os.path.dirname(os.path.abspath(__file__)) + os.sep


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
