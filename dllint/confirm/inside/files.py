"""Keeps the user's files as they are: what the script writes goes to a scratch folder, from where it also reads it.

The functions of ``open``, ``os`` and ``torch`` that take paths are given those of the scratch folder. Files of the
system, of caches and of temporary folders are left alone, as is what libraries write without Python.
"""

from __future__ import annotations

import builtins
import functools
import io
import os
import shutil
import tempfile
from collections.abc import Callable
from typing import Any

_real_exists = os.path.lexists
_real_isdir = os.path.isdir
_real_makedirs = os.makedirs
_real_mkdir = os.mkdir
_real_copy = shutil.copy2

_READING = ("stat", "lstat", "access", "readlink")
_WRITING = ("mkdir", "rmdir", "remove", "unlink", "truncate", "chmod", "utime")
_MOVING = ("rename", "replace", "link")

_scratch = ""
_left_alone: tuple[str, ...] = ()
_working = ""
_redirected: dict[str, None] = {}


def guard_files(scratch: str) -> None:
    """Redirect what this process writes from now on to a folder."""
    global _scratch, _left_alone, _working
    _scratch = scratch
    home_cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folders = (tempfile.gettempdir(), "/dev", "/proc", "/sys", home_cache, os.path.dirname(scratch))
    _left_alone = tuple(os.path.abspath(folder) + os.sep for folder in folders)
    _working = os.getcwd() + os.sep
    builtins.open = io.open = _opening(builtins.open)
    os.open = _opening_descriptor(os.open)
    os.listdir = _listing(os.listdir)
    for names, kind in ((_READING, _reading), (_WRITING, _writing), (_MOVING, _moving)):
        for name in names:
            setattr(os, name, kind(getattr(os, name)))


def redirected() -> list[str]:
    """The paths that the script wanted to write to."""
    return list(_redirected)


def for_reading(path: Any) -> Any:
    """Where to read what the script knows by a path."""
    copy = _copy_of(path)
    return copy if copy and _real_exists(copy) else path


def for_writing(path: Any, *, keep: bool = False) -> Any:
    """Where to write what the script knows by a path; with what it holds so far if that is to be kept."""
    copy = _copy_of(path)
    if not copy:
        return path
    _redirected.setdefault(os.path.abspath(os.fspath(path)))
    parent = os.path.dirname(os.path.abspath(os.fspath(path)))
    if _real_isdir(parent) and not _real_exists(os.path.dirname(copy)):
        _make_folder(os.path.dirname(copy))
    if keep and os.path.isfile(path) and not _real_exists(copy):
        _real_copy(path, copy)
    return copy


def _make_folder(path: str) -> None:
    if not _real_isdir(path):
        _make_folder(os.path.dirname(path))
        _real_mkdir(path)


def _copy_of(path: Any) -> str:
    """The place in the scratch folder of a path that is redirected; empty for any other."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        return ""
    text = os.fsdecode(path)
    full = os.path.abspath(text)
    if (full + os.sep).startswith(_left_alone) and not full.startswith(_working):
        return ""
    return os.path.join(_scratch, os.path.splitdrive(full)[1].lstrip(os.sep))


def _opening(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def opening(file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
        if any(letter in mode for letter in "wax+"):
            if "x" in mode and _real_exists(for_reading(file)):
                return original(for_reading(file), mode, *arguments, **named)  # which raises FileExistsError
            return original(for_writing(file, keep="w" not in mode), mode, *arguments, **named)
        return original(for_reading(file), mode, *arguments, **named)

    return opening


def _opening_descriptor(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def opening(path: Any, flags: int, *arguments: Any, **named: Any) -> Any:
        writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        place = for_writing(path, keep=not flags & os.O_TRUNC) if writes else for_reading(path)
        return original(place, flags, *arguments, **named)

    return opening


def _reading(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def reading(path: Any, *arguments: Any, **named: Any) -> Any:
        return original(path if named.get("dir_fd") is not None else for_reading(path), *arguments, **named)

    return reading


def _writing(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def writing(path: Any, *arguments: Any, **named: Any) -> Any:
        if named.get("dir_fd") is not None:
            return original(path, *arguments, **named)
        return original(for_writing(path, keep=True), *arguments, **named)

    return writing


def _moving(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def moving(source: Any, target: Any, *arguments: Any, **named: Any) -> Any:
        return original(for_writing(source, keep=True), for_writing(target), *arguments, **named)

    return moving


def _listing(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def listing(path: Any = ".") -> Any:
        copy = _copy_of(path)
        if not copy or not _real_isdir(copy):
            return original(path)
        known = original(path) if _real_isdir(path) else []
        return [*known, *(name for name in original(copy) if name not in known)]

    return listing
