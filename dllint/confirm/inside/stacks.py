"""Where in the user's code something happens."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import CodeType, FrameType

from dllint.confirm.evidence import Frame, Stack

_DEPTH = 6  # frames of the user's that are kept
_LIBRARIES = tuple(
    {
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
        *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    }
)
_paths: dict[CodeType, str] = {}  # of the user's code; empty for other code
_known: dict[tuple[tuple[CodeType, int], ...], Stack] = {}


def stack() -> Stack:
    """The innermost frames that are neither of dllint, nor of the standard library, nor of an installed package."""
    found: list[tuple[CodeType, int]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(found) < _DEPTH:
        code = frame.f_code
        path = _paths.get(code)
        if path is None:
            path = _paths[code] = _users_path(code.co_filename)
        if path:
            found.append((code, frame.f_lineno))
        frame = frame.f_back
    key = tuple(found)
    if key not in _known:
        _known[key] = tuple(Frame(_paths[code], line, code.co_name) for code, line in found)
    return _known[key]


def calling_module() -> str:
    """The name of the module whose code called what is being observed."""
    frame = sys._getframe(1)
    while str(frame.f_globals.get("__name__", "")).startswith("dllint.") and frame.f_back is not None:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


def _users_path(filename: str) -> str:
    path = "" if filename.startswith("<") else os.path.abspath(filename)
    return "" if path.startswith(_LIBRARIES) else path
