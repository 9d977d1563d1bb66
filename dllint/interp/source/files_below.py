"""The files below the root of a project: its modules, and what else may name what they define."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

_SKIPPED = frozenset(("node_modules", "venv", "site-packages", "build", "dist", "__pycache__"))
_MAX_SEARCHED = 1500
_CONFIGURATION = (".yaml", ".yml", ".json", ".toml", ".ini", ".conf", ".cfg", ".sh", ".gin")
_NOTES = (".md", ".rst", ".txt", "Makefile", ".bat", ".slurm", ".sbatch", ".ipynb")
_MAX_OTHERS = 500  # files
_LARGEST_CONFIGURATION = 100_000  # bytes
_LARGEST_NOTEBOOK = 4_000_000

Note = Callable[[Path], object]
"""Is told each folder that is looked into."""
Below = Callable[[Path, Note], Iterator[Path]]
"""Lists files of a kind below a folder."""


def modules_below(root: Path, note: Note, unsaved: Iterator[Path]) -> tuple[Path, ...]:
    """The modules below a folder, those among them that are only there unsaved; of very many, some."""
    found: list[Path] = []
    for folder, names in _folders_below(root, note):
        found.extend(Path(folder, name) for name in names if name.endswith(".py"))
        if len(found) > _MAX_SEARCHED:
            break
    found.extend(sorted({file for file in unsaved if _is_module_below(root, file)}.difference(found)))
    return tuple(found[:_MAX_SEARCHED])


def configuration_below(root: Path, note: Note) -> Iterator[Path]:
    """The files that may name what a project uses, without the large ones; of very many, some."""
    return islice(_others_below(root, note, _CONFIGURATION, _LARGEST_CONFIGURATION), _MAX_OTHERS)


def commands_below(root: Path, note: Note) -> Iterator[Path]:
    """The files that may have commands in them, without the large ones; of very many, some."""
    return islice(_others_below(root, note, (*_CONFIGURATION, *_NOTES), _LARGEST_CONFIGURATION), _MAX_OTHERS)


def notebooks_below(root: Path, note: Note) -> Iterator[Path]:
    """The notebooks, without the large ones; of very many, some."""
    return islice(_others_below(root, note, (".ipynb",), _LARGEST_NOTEBOOK), _MAX_OTHERS)


def _others_below(root: Path, note: Note, suffixes: tuple[str, ...], largest: int) -> Iterator[Path]:
    """Files that are no modules, by how their names end, up to a number of bytes."""
    for folder, names in _folders_below(root, note):
        for name in (name for name in names if name.endswith(suffixes)):
            with suppress(OSError):
                if os.stat(os.path.join(folder, name)).st_size <= largest:
                    yield Path(folder, name)


def _folders_below(root: Path, note: Note) -> Iterator[tuple[str, list[str]]]:
    """The folders that are looked into, each with the names of its files, in order."""
    for folder, subfolders, names in os.walk(root):
        note(Path(folder))
        subfolders[:] = sorted(name for name in subfolders if not _is_skipped(name))
        yield folder, sorted(names)


def _is_module_below(root: Path, file: Path) -> bool:
    is_below = file.suffix == ".py" and file.is_relative_to(root)
    return is_below and not any(map(_is_skipped, file.relative_to(root).parts))


def _is_skipped(name: str) -> bool:
    return name in _SKIPPED or name.startswith(".")
