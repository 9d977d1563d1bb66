"""Keeps the user's files as they are: what the script writes goes to a scratch folder, from where it also reads it.

The functions of ``open``, ``os`` and ``torch`` that take paths are given those of the scratch folder. Files of the
system, of caches and of temporary folders are left alone. What libraries write without Python is the matter of
:mod:`dllint.confirm.inside.native_files`.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import os
import shutil
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

_real_stat = os.stat
_real_lstat = os.lstat
_real_mkdir = os.mkdir
_real_copy = shutil.copy2
_real_listdir = os.listdir
_real_replace = os.replace

_KEEP_FUNCTIONS = ("posix", "nt", "_io", "importlib._bootstrap_external", __name__)

_scratch = ""
_left_alone: tuple[str, ...] = ()
_own: tuple[str, ...] = ()  # folders of dllint
_working = ""
_redirected: dict[str, None] = {}
_gone: set[str] = set()  # files and folders of the user that the script believes it has removed
_acts: list[tuple[Any, str, Callable[..., Any]]] = []  # by the functions that they take the place of


def guard_files(scratch: str, records: str) -> None:
    """Redirect what this process writes from now on to a folder, but for the records of dllint."""
    global _scratch, _left_alone, _own, _working
    _scratch = scratch
    _own = (scratch + os.sep, records + os.sep)
    home_cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    temporary = os.path.dirname(os.path.dirname(scratch))  # importing `tempfile` now would bind what is replaced below
    folders = (temporary, "/dev", "/proc", "/sys", home_cache)
    _left_alone = tuple(os.path.abspath(folder) + os.sep for folder in folders)
    _working = os.getcwd() + os.sep
    redirections = {}
    for owner, name, act in _acts:
        original = getattr(owner, name)
        redirections[id(original)] = _replacement(original, act)
        setattr(owner, name, redirections[id(original)])
    _rebind(redirections)


def _rebind(redirections: dict[int, Any]) -> None:
    """Put functions in the place of others, by their ids, that modules or their classes hold as their own."""
    loaded = [module for name, module in list(sys.modules.items()) if name not in _KEEP_FUNCTIONS]
    modules = [module for module in loaded if isinstance(module, ModuleType)]
    classes = {kind for module in modules for kind in vars(module).values() if isinstance(kind, type)}
    for owner in (*modules, *classes):
        for name, value in list(vars(owner).items()):
            redirected = redirections.get(id(value.__func__ if isinstance(value, staticmethod) else value))
            if redirected is not None:
                setattr(owner, name, staticmethod(redirected) if isinstance(owner, type) else redirected)


def redirected() -> list[str]:
    """The paths that the script wanted to write to."""
    return list(_redirected)


def for_reading(path: Any) -> Any:
    """Where to read what the script knows by a path: a place where nothing is, if the script has removed it."""
    copy = _copy_of(path)
    return copy if copy and (_real_exists(copy) or _is_gone(path)) else path


def for_writing(path: Any, *, keep: bool = False) -> Any:
    """Where to write what the script knows by a path; with what it holds so far if that is to be kept."""
    copy = _copy_of(path)
    if not copy:
        return path
    full = _full(path)
    _redirected.setdefault(full)
    parent = os.path.dirname(full)
    if _real_isdir(parent) and not _is_gone(parent):
        _make_folder(os.path.dirname(copy))
    if keep:
        _copy_rest(full, copy)
    return copy


def folder_for_writing(path: Any) -> Any:
    """Where to write files into what the script knows as a folder."""
    copy = _copy_of(path)
    if copy and _real_isdir(for_reading(path)):
        _make_folder(copy)
    return copy or path


def _copy_rest(full: str, copy: str) -> None:
    """Copy a file or folder to the scratch folder, but for what is there already, and what has been removed."""
    if _is_gone(full) or not _real_exists(full):
        return
    if _real_isdir(full):
        _make_folder(copy)
        for name in _real_listdir(full):
            _copy_rest(os.path.join(full, name), os.path.join(copy, name))
    elif not _real_exists(copy):
        part = f"{copy}.{os.getpid()}.{threading.get_ident()}"  # another process may want the same file, and whole
        _real_copy(full, part, follow_symlinks=False)
        _real_replace(part, copy)


def _real_exists(path: Any) -> bool:
    try:
        _real_lstat(path)
    except (OSError, ValueError):
        return False
    return True


def _real_isdir(path: Any) -> bool:
    try:
        return stat.S_ISDIR(_real_stat(path).st_mode)
    except (OSError, ValueError):
        return False


def _full(path: Any) -> str:
    return os.path.abspath(os.fsdecode(path))


def _is_gone(path: Any) -> bool:
    full = _full(path)
    return any(full == gone or full.startswith(gone + os.sep) for gone in _gone)


def _make_folder(path: str) -> None:
    if not _real_isdir(path):
        _make_folder(os.path.dirname(path))
        with contextlib.suppress(FileExistsError):  # another process of the run has made it meanwhile
            _real_mkdir(path)


def _copy_of(path: Any) -> str:
    """The place in the scratch folder of a path that is redirected; empty for any other."""
    if not isinstance(path, (str, bytes, os.PathLike)):
        return ""
    full = _full(path)
    folder = full + os.sep
    if folder.startswith(_own) or (folder.startswith(_left_alone) and not folder.startswith(_working)):
        return ""
    return os.path.join(_scratch, os.path.splitdrive(full)[1].lstrip(os.sep))


def _replacing(owner: Any, *names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Have a function take the place of others, each of which it is given before the arguments."""

    def replacing(act: Callable[..., Any]) -> Callable[..., Any]:
        _acts.extend((owner, name, act) for name in names if hasattr(owner, name))
        return act

    return replacing


def _replacement(original: Callable[..., Any], act: Callable[..., Any]) -> Callable[..., Any]:
    """What stands in the place of a function. Paths below a folder that is open (``dir_fd``) are left alone."""

    @functools.wraps(original)
    def replaced(*arguments: Any, **named: Any) -> Any:
        return original(*arguments, **named) if named.get("dir_fd") is not None else act(original, *arguments, **named)

    return replaced


@_replacing(builtins, "open")
def _opening(original: Any, file: Any, mode: str = "r", *arguments: Any, **named: Any) -> Any:
    is_refused = "x" in mode and _real_exists(for_reading(file))  # by FileExistsError
    writes = any(letter in mode for letter in "wax+") and not is_refused
    place = for_writing(file, keep="w" not in mode) if writes else for_reading(file)
    return original(place, mode, *arguments, **named)


@_replacing(os, "open")
def _opening_descriptor(original: Any, path: Any, flags: int, *arguments: Any, **named: Any) -> Any:
    writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    place = for_writing(path, keep=not flags & os.O_TRUNC) if writes else for_reading(path)
    return original(place, flags, *arguments, **named)


@_replacing(os, "stat", "lstat", "access", "readlink", "statvfs", "getxattr", "listxattr")
def _reading(original: Any, path: Any, *arguments: Any, **named: Any) -> Any:
    return original(for_reading(path), *arguments, **named)


@_replacing(os, "truncate", "chmod", "chown", "utime", "setxattr", "removexattr")
def _changing(original: Any, path: Any, *arguments: Any, **named: Any) -> Any:
    return original(for_writing(path, keep=True), *arguments, **named)


@_replacing(os, "remove", "unlink", "rmdir")
def _removing(original: Any, path: Any, **named: Any) -> Any:
    if not _copy_of(path):
        return original(path, **named)
    original(for_writing(path, keep=True), **named)
    _gone.add(_full(path))


@_replacing(shutil, "rmtree")
def _removing_tree(original: Any, path: Any, *arguments: Any, **named: Any) -> Any:
    copy = _copy_of(path)
    if not copy:
        return original(path, *arguments, **named)
    if _real_exists(copy) or not os.path.isdir(path):
        original(copy, *arguments, **named)  # which raises the right error if there is none
    _gone.add(_full(path))


@_replacing(os, "rename", "replace")
def _moving(original: Any, source: Any, target: Any, **named: Any) -> Any:
    result = original(for_writing(source, keep=True), for_writing(target), **named)
    if _copy_of(source):
        _gone.add(_full(source))
    return result


@_replacing(os, "link", "symlink")
def _linking(original: Any, source: Any, target: Any, *arguments: Any, **named: Any) -> Any:
    place = source if original.__name__ == "symlink" else for_writing(source, keep=True)
    return original(place, for_writing(target), *arguments, **named)


@_replacing(os, "mkdir")
def _making_folder(original: Any, path: Any, *arguments: Any, **named: Any) -> Any:
    place = for_reading(path) if _real_exists(for_reading(path)) else for_writing(path)
    return original(place, *arguments, **named)  # which raises FileExistsError where it exists


@_replacing(os, "listdir")
def _listing(original: Any, path: Any = ".") -> Any:
    return [entry.name for entry in os.scandir(path)] if _copy_of(path) else original(path)


class _Entry:
    """An entry of a folder in the scratch folder, under the path by which the script knows it."""

    def __init__(self, entry: Any, folder: Any) -> None:
        self._entry = entry
        self.name = entry.name
        self.path = os.path.join(folder, entry.name)

    def __fspath__(self) -> Any:
        return self.path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._entry, name)


class _Entries(list[Any]):
    """Entries of a folder, with the manners of what ``os.scandir`` returns."""

    def __enter__(self) -> Iterator[Any]:
        return iter(self)

    def __exit__(self, *_: object) -> None:
        return None

    def __next__(self) -> Any:
        if not self:
            raise StopIteration
        return self.pop(0)

    def close(self) -> None:
        """There is nothing to close."""


@_replacing(os, "scandir")
def _scanning(original: Any, path: Any = ".") -> Any:
    copy = _copy_of(path)
    if not copy or not (_real_isdir(copy) or _gone):
        return original(path)
    added = [_Entry(entry, path) for entry in original(copy)] if _real_isdir(copy) else []
    if _is_gone(path):
        return _Entries(added) if _real_isdir(copy) else original(copy)
    names = {entry.name for entry in added}
    known = list(original(path)) if _real_isdir(path) or not _real_isdir(copy) else []
    kept = [entry for entry in known if entry.name not in names and not _is_gone(entry.path)]
    return _Entries(kept + added)
