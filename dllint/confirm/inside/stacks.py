"""Where in the user's code something happens, and events that happen there in the words of the vocabulary."""

from __future__ import annotations

import ast
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from types import CodeType, FrameType
from typing import Any, TypeVar, cast

from dllint.confirm.evidence import Line, Stack
from dllint.events import Event, Frame
from dllint.sites import Site

E = TypeVar("E", bound=Event)

_DEPTH = 6  # frames of the user's that are kept


def _libraries() -> tuple[str, ...]:
    """The folders whose code is not the user's: dllint, the standard library, torch, and where packages are installed.

    Packages also come from the folder of the user (`pip install --user`), and from those that a `.pth` file names.
    """
    own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    folders = {own, *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))}
    for folder in filter(None, sys.path):
        with suppress(OSError):
            has_packages = any(name.endswith(".dist-info") for name in os.listdir(folder))
            folders |= {os.path.abspath(folder)} if has_packages else set()
    folders |= set(getattr(sys.modules.get("torch"), "__path__", ()))
    return tuple(folder + os.sep for folder in folders)


_LIBRARIES = _libraries()


class _OneOfEach(tuple[Line, ...]):
    """A stack of which there is just one, so that it is known by itself: hashing frames takes longer than all else."""

    __slots__ = ()
    __hash__ = object.__hash__
    __eq__ = object.__eq__


_codes: dict[int, tuple[CodeType, str]] = {}  # code by its id, which stays its own, and its path if it is the user's
_known: dict[tuple[int, ...], Stack] = {}  # by the ids of code and the lines


def stack(start: FrameType | None = None) -> Stack:
    """The innermost frames that are neither of dllint, nor of the standard library, nor of an installed package.

    Args:
        start: the frame to look from; that of the caller if there is none.
    """
    found: list[int] = []
    frame: FrameType | None = start or sys._getframe(1)
    while frame is not None and len(found) < 2 * _DEPTH:
        code = frame.f_code
        known = _codes.get(id(code)) or _look_at(code)
        if known[1]:
            found += (id(code), frame.f_lineno)
        frame = frame.f_back
    key = tuple(found)
    known_stack = _known.get(key)
    return _make(key) if known_stack is None else known_stack


def _look_at(code: CodeType) -> tuple[CodeType, str]:
    if code.co_filename.startswith("<"):  # generated, and perhaps gone soon
        return code, ""
    path = os.path.abspath(code.co_filename)
    known = _codes[id(code)] = (code, "" if path.startswith(_LIBRARIES) else path)
    return known


def _make(key: tuple[int, ...]) -> Stack:
    frames = (
        Line(_codes[code][1], line, _codes[code][0].co_name) for code, line in zip(key[::2], key[1::2], strict=True)
    )
    known = _known[key] = _OneOfEach(frames)
    return known


def lines() -> set[Line]:
    """All lines of the user's that something was seen to come from, directly or not."""
    return {line for known in _known.values() for line in known}


def defined_at(function: Any) -> Stack:
    """Where a function of the user's is defined; empty where it is not the user's."""
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType) or not _look_at(code)[1]:
        return ()
    return _make((id(code), code.co_firstlineno))


def frames() -> Iterator[FrameType]:
    """The calls under way, that of the caller first."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def calling_module() -> str:
    """The name of the module whose code called what is being observed."""
    names = (str(frame.f_globals.get("__name__", "")) for frame in frames())
    return next((name for name in names if not name.startswith("dllint.")), "")


class Place(Site):
    """A line that was being executed, with the user's lines that led to it."""

    __slots__ = ("frame", "stack")

    def __init__(self, stack: Stack) -> None:
        nowhere: Any = None  # there is no syntax tree
        super().__init__(nowhere, ast.Pass())
        self.stack = stack
        self.frame = Frame(stack[0].function if stack else "")

    @property
    def path(self) -> str:
        """The file; empty where no line of the user's had a part in it."""
        return self.stack[0].path if self.stack else ""

    @property
    def line(self) -> int:
        """The line in that file."""
        return self.stack[0].line if self.stack else 0


place = cache(Place)
"""The place that a stack leads to."""


def here(kind: Callable[..., E], *details: Any, **more: Any) -> E:
    """An event that happens at the lines of the user's which are being executed."""
    site = place(stack())
    return kind(site, *details, frame=site.frame, **more)


def stack_of(event: Event) -> Stack:
    """The lines of the user's that an event comes from, innermost first."""
    return cast(Place, event.site).stack
