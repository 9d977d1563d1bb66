"""Keeps the user's files as they are where libraries write and read them without Python.

What such a library is given is the path in the scratch folder; it would not find a folder that exists only there.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from dllint.confirm.inside.attach import after_import
from dllint.confirm.inside.files import folder_for_writing, for_reading, for_writing
from dllint.dataclass import dataclass


@dataclass(frozen=True)
class _Function:
    """A function of a library that takes a path, at a position or by keyword, and where the path leads instead."""

    module: str
    name: str
    position: int
    keyword: str
    place: Callable[[Any], Any] | None = None  # None where that depends on a mode such as ``open`` takes


def _for_database(path: Any) -> Any:
    is_file = str(path) not in ("", ":memory:") and not str(path).startswith("file:")  # which may name no file
    return for_writing(path, keep=True) if is_file else path


_MODELS = ("BPE", "Unigram", "WordLevel", "WordPiece")
_FUNCTIONS = (
    _Function("cv2", "imwrite", 0, "filename", for_writing),
    _Function("cv2", "imread", 0, "filename", for_reading),
    _Function("cv2", "VideoWriter", 0, "filename", for_writing),
    _Function("h5py", "File.__init__", 1, "name"),
    _Function("pyarrow.parquet.core", "ParquetWriter.__init__", 1, "where", for_writing),
    _Function("safetensors", "serialize_file", 1, "filename", for_writing),
    _Function("safetensors", "safe_open", 0, "filename", for_reading),
    _Function("soundfile", "SoundFile.__init__", 1, "file"),
    _Function("sqlite3", "connect", 0, "database", _for_database),
    _Function("sqlite3", "dbapi2.connect", 0, "database", _for_database),
    _Function("tokenizers", "Tokenizer.save", 1, "path", for_writing),
    _Function("tokenizers", "Tokenizer.from_file", 0, "path", for_reading),
    *(_Function("tokenizers", f"models.{kind}.save", 1, "folder", folder_for_writing) for kind in _MODELS),
    _Function("torch.autograd.profiler", "profile.export_chrome_trace", 1, "path", for_writing),
    _Function("torch.jit", "RecursiveScriptModule.save", 1, "f", for_writing),
    _Function("torch.jit", "load", 0, "f", for_reading),
    _Function("torchvision.io.image", "write_file", 0, "filename", for_writing),
    _Function("torchvision.io.image", "read_file", 0, "path", for_reading),
)


def guard_native_files() -> None:
    """Redirect what libraries write from now on, each as soon as it is imported."""
    for module in dict.fromkeys(function.module for function in _FUNCTIONS):
        after_import(module, functools.partial(_redirect, module))


def _redirect(module: str) -> None:
    for function in (each for each in _FUNCTIONS if each.module == module):
        owners, _, name = function.name.rpartition(".")
        try:
            owner = attrgetter(owners)(sys.modules[module]) if owners else sys.modules[module]
            original = vars(owner).get(name) or getattr(owner, name)
        except AttributeError:  # another version of the library
            continue
        is_static = isinstance(original, staticmethod) or type(original).__name__ == "builtin_function_or_method"
        redirected = _redirecting(original.__func__ if isinstance(original, staticmethod) else original, function)
        setattr(owner, name, staticmethod(redirected) if is_static and isinstance(owner, type) else redirected)


def _redirecting(original: Callable[..., Any], function: _Function) -> Callable[..., Any]:
    @functools.wraps(original)
    def redirected(*arguments: Any, **named: Any) -> Any:
        given = list(arguments)
        after = given[function.position + 1 :]
        mode = named.get("mode", after[0] if after else "r")
        place = function.place
        if place is None:
            place = for_reading if mode == "r" else functools.partial(for_writing, keep="w" not in mode)
        if function.keyword in named:
            named[function.keyword] = place(named[function.keyword])
        elif len(given) > function.position:
            given[function.position] = place(given[function.position])
        return original(*given, **named)

    if isinstance(original, type):  # annotations need a class where there was one: its call makes an object in this way
        return type(original.__name__, (), {"__new__": lambda _, *given, **named: redirected(*given, **named)})
    return redirected
