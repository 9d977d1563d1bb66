"""Which files of a project import the open ones: asked after each edit, and worked out when an import has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from dllint.import_index import ImportIndex


class Importing:
    """The importers of what is open.

    Args:
        folder: the workspace folder; imports are not followed to above it.
        files: finds all files of the project, as they are on disk.
    """

    def __init__(self, folder: Path, files: Callable[[], Iterable[Path]]) -> None:
        self._folder = folder
        self._files = files
        self._index = ImportIndex.open(None)
        self._on_disk: list[Path] | None = None
        self._known: tuple[tuple[frozenset[Path], frozenset[Path]], list[Path]] | None = None

    def forget(self) -> None:
        """Something has changed on disk."""
        self._on_disk = self._known = None

    def importers(self, imported: Sequence[Path], own: Sequence[Path], texts: Mapping[Path, str]) -> list[Path]:
        """The files that import one of some files, directly or not, and are not open.

        Args:
            imported: the open files whose importers are wanted.
            own: all open files.
            texts: the text of everything that is open.
        """
        if self._on_disk is None:
            self._on_disk = list(self._files())
        if not self._on_disk:
            return []
        key = (frozenset(imported), frozenset(own))
        if self._known is None or self._known[0] != key or not self._index.fits(texts):
            self._index.refresh({*self._on_disk, *own}, texts)
            found = self._index.importers(imported, self._folder)
            self._known = key, [path for path in found if path not in key[1]]
        return self._known[1]

    def importers_of(self, file: Path) -> list[Path]:
        """The files that import one, directly or not, as of when they were last looked for."""
        return self._index.importers([file], self._folder)
