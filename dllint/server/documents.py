"""What is open in the editor: files and notebooks, with their unsaved text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls import uris

from dllint.dataclass import dataclass
from dllint.server.text import Text


@dataclass(slots=True)
class Document:
    """An open file."""

    uri: str
    path: Path
    version: int
    text: Text

    @property
    def source(self) -> str:
        """The text that the file would have on disk."""
        return self.text.content


@dataclass(slots=True)
class OpenCell:
    """A cell of an open notebook; ``text`` is None for one that is no code."""

    uri: str
    text: Text | None
    language: str = "python"
    version: int = 0
    execution_count: int | None = None


@dataclass(slots=True)
class OpenNotebook:
    """An open notebook. It counts as one module, as it does on disk."""

    uri: str
    path: Path
    version: int
    cells: list[OpenCell] = field(default_factory=list)

    @property
    def source(self) -> str:
        """A notebook file with the code cells as they are in the editor."""
        return json.dumps({"cells": [_record(cell) for cell in self.cells], "metadata": {}, "nbformat": 4})


def _record(cell: OpenCell) -> dict[str, Any]:
    if cell.text is None:
        return {"cell_type": "markdown", "metadata": {}, "source": ""}
    metadata = {} if cell.language == "python" else {"vscode": {"languageId": cell.language}}
    return {
        "cell_type": "code",
        "execution_count": cell.execution_count,
        "metadata": metadata,
        "source": cell.text.content,
    }


class Documents:
    """All that is open, by path. ``encoding`` is what the client counts columns in."""

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding
        self.files: dict[str, Document] = {}  # by URI
        self.notebooks: dict[str, OpenNotebook] = {}
        self._notebook_of: dict[str, str] = {}  # the URI of each cell's notebook

    def open(self, document: types.TextDocumentItem) -> None:
        """A file was opened. What has no place in the file system is left alone."""
        path = path_of(document.uri)
        if path is not None and document.language_id == "python":
            text = Text(document.text, self.encoding)
            self.files[document.uri] = Document(document.uri, path, document.version, text)

    def change(self, uri: str, version: int, changes: Sequence[types.TextDocumentContentChangeEvent]) -> None:
        """A file was edited."""
        document = self.files.get(uri)
        if document is not None:
            document.text = edited(document.text, changes)
            document.version = version

    def close(self, uri: str) -> None:
        """A file was closed."""
        self.files.pop(uri, None)

    def open_notebook(self, notebook: types.NotebookDocument, texts: Sequence[types.TextDocumentItem]) -> None:
        """A notebook was opened, with these texts of its code cells."""
        path = path_of(notebook.uri)
        if path is None:
            return
        opened = self.notebooks[notebook.uri] = OpenNotebook(notebook.uri, path, notebook.version)
        self._insert(opened, 0, notebook.cells, texts)

    def _insert(
        self,
        notebook: OpenNotebook,
        start: int,
        cells: Sequence[types.NotebookCell],
        texts: Sequence[types.TextDocumentItem],
    ) -> None:
        given = {text.uri: text for text in texts}
        present = {cell.uri: cell for cell in notebook.cells}
        inserted: list[OpenCell] = []
        for cell in cells:
            text = given.get(cell.document)
            known = present.get(cell.document)
            if text is not None:
                content = Text(text.text, self.encoding)
                new = OpenCell(cell.document, content, text.language_id, text.version)
            else:
                new = known or OpenCell(cell.document, None)
            new.execution_count = cell.execution_summary.execution_order if cell.execution_summary else None
            self._notebook_of[cell.document] = notebook.uri
            inserted.append(new)
        notebook.cells[start:start] = inserted

    def change_notebook(self, uri: str, version: int, change: types.NotebookDocumentChangeEvent) -> None:
        """Cells of a notebook were edited, moved or run."""
        notebook = self.notebooks.get(uri)
        if notebook is None:
            return
        notebook.version = version
        changes = change.cells
        if changes is None:
            return
        if changes.structure is not None:
            array = changes.structure.array
            removed = notebook.cells[array.start : array.start + array.delete_count]
            self._insert(notebook, array.start, array.cells or (), changes.structure.did_open or ())
            kept = len(array.cells or ())
            del notebook.cells[array.start + kept : array.start + kept + len(removed)]
            for closed in changes.structure.did_close or ():
                self._notebook_of.pop(closed.uri, None)
        cells = {cell.uri: cell for cell in notebook.cells}
        for edit in changes.text_content or ():
            cell = cells.get(edit.document.uri)
            if cell is not None and cell.text is not None:
                cell.text = edited(cell.text, edit.changes)
                cell.version = edit.document.version
        for data in changes.data or ():
            if data.document in cells and data.execution_summary is not None:
                cells[data.document].execution_count = data.execution_summary.execution_order

    def close_notebook(self, uri: str) -> None:
        """A notebook was closed."""
        notebook = self.notebooks.pop(uri, None)
        for cell in notebook.cells if notebook is not None else ():
            self._notebook_of.pop(cell.uri, None)

    def texts(self) -> dict[Path, str]:
        """The unsaved text of everything that is open."""
        return {document.path: document.source for document in self}

    def __iter__(self) -> Iterator[Document | OpenNotebook]:
        yield from self.files.values()
        yield from self.notebooks.values()

    def find(self, uri: str) -> Document | OpenNotebook | None:
        """The open document with a URI; for that of a cell, its notebook."""
        return self.files.get(uri) or self.notebooks.get(self._notebook_of.get(uri, uri))

    def at(self, path: Path) -> Document | OpenNotebook | None:
        """The open document of a path."""
        return next((document for document in self if document.path == path), None)


def edited(text: Text, changes: Sequence[types.TextDocumentContentChangeEvent]) -> Text:
    """A text after changes, each of which is about the outcome of the one before."""
    for change in changes:
        where = change.range if isinstance(change, types.TextDocumentContentChangePartial) else None
        text = text.replaced(where, change.text)
    return text


def path_of(uri: str) -> Path | None:
    """The path of a ``file:`` URI; None for any other, such as a buffer that has not been saved yet."""
    path = uris.to_fs_path(uri) if uri.startswith("file:") else None
    return Path(path) if path else None


def uri_of(path: Path) -> str:
    """The URI of a path."""
    return str(uris.from_fs_path(str(path)))
