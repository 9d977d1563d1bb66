"""The paths of checkpoints: whether two can name one file, and whether one stays the same."""

from __future__ import annotations

from collections.abc import Sequence

from dllint.choices import Choice, alternatives
from dllint.context.checkpoints import Saved, is_same_path, path_numbers, path_pattern
from dllint.context.loading import file_name, fits_pattern
from dllint.events import StateRead
from dllint.interp.source.topics import speaks_of
from dllint.values import Const, External, Instance, Setting, Symbol, Value

_READING_SETTINGS = frozenset(("yaml.safe_load", "yaml.load", "yaml.full_load", "json.load", "json.loads", "toml.load"))


def is_that_of_others(read: Value | None, saved: Value | None, others: Sequence[Value | None]) -> bool:
    """Whether a path that is read is one of some others, and not that of a checkpoint, whose file name or number is
    another one."""
    number = path_numbers(read)
    alike = (each for each in others if number == path_numbers(each) and is_same_path(each, read))
    if number and number != path_numbers(saved) and any(True for _ in alike):
        return True
    names = [file_name(path_pattern(each)) for each in (read, saved)]
    is_known = names[0] not in ("", names[1]) and "*" not in names[0]
    return is_known and names[0] in {file_name(path_pattern(each)) for each in others}


def is_other_file(saved: Saved, read: StateRead) -> bool:
    """Whether two paths are known, and of different files."""
    names = [file_name(path_pattern(path)) for path in (saved.event.path, read.path)]
    return all(name and "*" not in name for name in names) and names[0] != names[1]


def has_another_name(saved: Saved, path: Value | None) -> bool:
    """Whether what is read has a file name that is written out, and not one of those under which this is saved."""
    while isinstance(path, Symbol) and path.name in ("os.path.join", "/") and path.inputs:
        path = path.inputs[-1]
    written = file_name(path_pattern(saved.event.path))
    if not written:
        return False
    if isinstance(path, Choice):
        return all(has_another_name(saved, option) for _, option in alternatives(path))
    is_known = isinstance(path, Const) and isinstance(path.value, str)
    return is_known and not fits_pattern(file_name(path_pattern(path)), written)


_FIXED = frozenset(("os.path.join", "/", "+", "format", ".format", "%", "str", "os.path.abspath", "pathlib.Path"))


def is_fixed(path: Value) -> bool:
    """Whether a path is made of constants, settings and attributes alone: the same in each iteration.

    A folder may also be a parameter. What counts (`self.step`) changes. What stands under a name in settings that
    somebody else has made (`config["name"]`) is kept, too.
    """
    if isinstance(path, Symbol) and path.name == "item" and isinstance(path.detail, str):
        return not speaks_of("progress", path.detail) and _is_of_settings(path.inputs[0])
    if isinstance(path, Symbol) and path.name == "attribute":
        is_kept = not speaks_of("progress", str(path.detail))
        return is_kept and all(is_fixed(each) or _is_given(each) for each in path.inputs)
    if isinstance(path, Symbol) and path.name in ("os.path.join", "/"):
        return is_fixed(path.inputs[-1]) and all(is_fixed(each) or _is_given(each) for each in path.inputs)
    if isinstance(path, Symbol):
        return path.name in _FIXED and bool(path.inputs) and all(map(is_fixed, path.inputs))
    if isinstance(path, Instance):
        return path.library_name == "pathlib.Path" and all(map(is_fixed, path.arguments.positional))
    return isinstance(path, Const | Setting | External)


def _is_of_settings(value: Value) -> bool:
    """Whether something is a parameter, what was read from a file of settings, or a part of these."""
    if isinstance(value, Symbol) and value.name in ("item", "attribute") and isinstance(value.detail, str):
        return not speaks_of("progress", value.detail) and _is_of_settings(value.inputs[0])
    return _is_given(value) or (isinstance(value, Symbol) and value.name in _READING_SETTINGS)


def _is_given(value: Value) -> bool:
    return isinstance(value, Instance) or (isinstance(value, Symbol) and value.name == "parameter")
