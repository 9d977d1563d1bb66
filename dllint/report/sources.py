"""The files that a report shows code of, each read once and only when it is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dllint.findings import Location

if TYPE_CHECKING:
    from dllint.files.source import SourceFile


def split_lines(text: str) -> list[str]:
    """The lines of ``text`` without their ends, as Python's tokenizer splits them; the last one may be empty."""
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


class SourceCache:
    """Reads files by the path that findings give them. A file that cannot be read simply has no lines to show."""

    def __init__(self, overlay: Mapping[Path, str] | None = None) -> None:
        """Take ``overlay``: unsaved text of files, by absolute path."""
        self._overlay = {} if overlay is None else overlay
        self._files: dict[str, SourceFile | None] = {}
        self._lines: dict[tuple[str, int | None], Sequence[str]] = {}
        self._raw_lines: dict[tuple[str, int], list[int]] = {}

    def lines(self, location: Location) -> Sequence[str]:
        """The lines that ``location`` counts in, those of its file or of its cell; none if they cannot be read."""
        key = (location.path, location.cell)
        if key not in self._lines:
            source = self._source(location.path)
            self._lines[key] = () if source is None else _lines(source, location.cell)
        return self._lines[key]

    def place(self, path: str, start: int, end: int) -> Location | None:
        """Where ``text[start:end]`` of a file is, or ``None`` if the file cannot be read or is not that long."""
        source = self._source(path)
        if source is None or end > len(source.text):
            return None
        return source.location_of(start, end)

    def file_lines(self, location: Location) -> tuple[int, int]:
        """The first and the last line of ``location`` in the file itself, which for a notebook is its JSON."""
        if location.cell is None:
            return location.line, location.end_line
        key = (location.path, location.cell)
        if key not in self._raw_lines:
            self._raw_lines[key] = self._read_raw_lines(*key)
        raw = self._raw_lines[key]
        first, last = (raw[line - 1] if line <= len(raw) else 1 for line in (location.line, location.end_line))
        return first, max(first, last)

    def order_note(self, path: str) -> str:
        """What is to be said of a notebook whose cells were run in another order; else nothing."""
        source = self._source(path) if path.endswith(".ipynb") else None
        return source.notebook.order_note() if source is not None and source.notebook is not None else ""

    def _read_raw_lines(self, path: str, cell: int) -> list[int]:
        source = self._source(path)
        if source is None or source.notebook is None:
            return []
        from dllint.report.raw_notebook import raw_lines

        return raw_lines(source.notebook.raw, cell)

    def _source(self, path: str) -> SourceFile | None:
        if path not in self._files:
            self._files[path] = self._read(path)
        return self._files[path]

    def _read(self, path: str) -> SourceFile | None:
        from dllint.files.source import SourceError, read_source, source_from_text

        absolute = Path(path).absolute()
        try:
            if absolute in self._overlay:
                return source_from_text(self._overlay[absolute], absolute, display=path)
            return read_source(absolute, display=path)
        except SourceError:
            return None


def _lines(source: SourceFile, cell: int | None) -> Sequence[str]:
    if cell is None:
        return split_lines(source.text)
    if source.notebook is None:
        return ()
    try:
        return source.notebook.cell_lines(cell)
    except KeyError:  # the notebook has changed since
        return ()
