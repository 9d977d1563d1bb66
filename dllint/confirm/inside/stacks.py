"""Where in the user's code something happens."""

from __future__ import annotations

import os
import sys
import sysconfig
from types import CodeType

from dllint.confirm.evidence import Frame, Stack

_DEPTH = 6  # frames of the user's that are kept
_LIBRARIES = tuple(
    {
        os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep,
        *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    }
)
_is_users: dict[CodeType, bool] = {}


def stack() -> Stack:
    """The innermost frames that are neither of dllint, nor of the standard library, nor of an installed package."""
    found: list[Frame] = []
    frame = sys._getframe(1)
    while frame is not None and len(found) < _DEPTH:
        code = frame.f_code
        users = _is_users.get(code)
        if users is None:
            users = _is_users[code] = _belongs_to_user(code.co_filename)
        if users:
            found.append(Frame(os.path.abspath(code.co_filename), frame.f_lineno, code.co_name))
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(found)


def calling_module() -> str:
    """The name of the module whose code called what is being observed."""
    frame = sys._getframe(1)
    while str(frame.f_globals.get("__name__", "")).startswith("dllint.") and frame.f_back is not None:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


def _belongs_to_user(filename: str) -> bool:
    return not filename.startswith("<") and not os.path.abspath(filename).startswith(_LIBRARIES)
