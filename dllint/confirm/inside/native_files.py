"""Keeps the user's files as they are where libraries write and read them without Python.

What such a library is given is the path in the scratch folder; it would not find a folder that exists only there.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from dllint.confirm.inside.files import folder_for_writing, for_reading, for_writing
from dllint.confirm.inside.importing import after_import


def _by_mode(path: Any, mode: str) -> Any:
    """Where to open a path with a mode such as ``open`` takes."""
    return for_reading(path) if mode == "r" else for_writing(path, keep="w" not in mode)


def _reads(path: Any, _: str) -> Any:
    return for_reading(path)


def _writes(path: Any, _: str) -> Any:
    return for_writing(path)


def _writes_into(path: Any, _: str) -> Any:
    return folder_for_writing(path)


def _opens_database(path: Any, _: str) -> Any:
    is_file = str(path) not in ("", ":memory:") and not str(path).startswith("file:")  # which may name no file
    return for_writing(path, keep=True) if is_file else path


@dataclass(frozen=True)
class _Function:
    """A function of a library that takes a path, at a position or by keyword."""

    name: str
    position: int
    keyword: str
    place: Callable[[Any, str], Any]


_FUNCTIONS = {
    "cv2": (
        _Function("imwrite", 0, "filename", _writes),
        _Function("imread", 0, "filename", _reads),
        _Function("VideoWriter", 0, "filename", _writes),
    ),
    "h5py": (_Function("File.__init__", 1, "name", _by_mode),),
    "pyarrow.parquet.core": (_Function("ParquetWriter.__init__", 1, "where", _writes),),
    "safetensors": (
        _Function("serialize_file", 1, "filename", _writes),
        _Function("safe_open", 0, "filename", _reads),
    ),
    "soundfile": (_Function("SoundFile.__init__", 1, "file", _by_mode),),
    "sqlite3": (
        _Function("connect", 0, "database", _opens_database),
        _Function("dbapi2.connect", 0, "database", _opens_database),
    ),
    "tokenizers": (
        _Function("Tokenizer.save", 1, "path", _writes),
        _Function("Tokenizer.from_file", 0, "path", _reads),
        *(_Function(f"models.{kind}.save", 1, "folder", _writes_into) for kind in ("BPE", "Unigram")),
        *(_Function(f"models.{kind}.save", 1, "folder", _writes_into) for kind in ("WordLevel", "WordPiece")),
    ),
    "torch.autograd.profiler": (_Function("profile.export_chrome_trace", 1, "path", _writes),),
    "torch.jit": (
        _Function("RecursiveScriptModule.save", 1, "f", _writes),
        _Function("load", 0, "f", _reads),
    ),
    "torchvision.io.image": (
        _Function("write_file", 0, "filename", _writes),
        _Function("read_file", 0, "path", _reads),
    ),
}


def guard_native_files() -> None:
    """Redirect what libraries write from now on, each as soon as it is imported."""
    for module, functions in _FUNCTIONS.items():
        after_import(module, functools.partial(_redirect, module, functions))


def _redirect(module: str, functions: tuple[_Function, ...]) -> None:
    for function in functions:
        owners, _, name = function.name.rpartition(".")
        try:
            owner = attrgetter(owners)(sys.modules[module]) if owners else sys.modules[module]
            original = vars(owner).get(name) or getattr(owner, name)
        except AttributeError:  # another version of the library
            continue
        is_static = isinstance(original, staticmethod) or type(original).__name__ == "builtin_function_or_method"
        redirected = _redirecting(original.__func__ if isinstance(original, staticmethod) else original, function)
        if isinstance(original, type):
            setattr(owner, name, _class_of(redirected))
        else:
            setattr(owner, name, staticmethod(redirected) if is_static and isinstance(owner, type) else redirected)


def _class_of(make: Callable[..., Any]) -> type:
    """A class whose call makes an object in this way: annotations need a class where there was one."""
    return type(make.__name__, (), {"__new__": lambda _, *arguments, **named: make(*arguments, **named)})


def _redirecting(original: Callable[..., Any], function: _Function) -> Callable[..., Any]:
    @functools.wraps(original)
    def redirected(*arguments: Any, **named: Any) -> Any:
        given = list(arguments)
        after = given[function.position + 1 :]
        mode = named.get("mode", after[0] if after else "r")
        if function.keyword in named:
            named[function.keyword] = function.place(named[function.keyword], mode)
        elif len(given) > function.position:
            given[function.position] = function.place(given[function.position], mode)
        return original(*given, **named)

    return redirected
