"""Notebooks are run as scripts: what they do is the same, and each line of the script is a line of a cell."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from dllint.confirm.evidence import Line, Record
from dllint.dataclass import dataclass
from dllint.errors import UserError
from dllint.files.source import SourceError, SourceFile, read_source


@dataclass(frozen=True, slots=True)
class NotebookScript:
    """A notebook, and the script that stands for it."""

    notebook: Path
    script: Path
    source: SourceFile

    @property
    def folder(self) -> Path:
        """Where a notebook is run: the folder that it is in."""
        return self.notebook.parent

    def return_to_cells(self, records: Sequence[Record]) -> None:
        """Have judgements on lines of the script be judgements on lines of the notebook's cells."""
        for record in records:
            for judgement in record.judgements:
                judgement.stacks = tuple(tuple(map(self._in_cell, stack)) for stack in judgement.stacks)
            for sight in record.seen:
                sight.line = self._in_cell(sight.line)

    def _in_cell(self, frame: Line) -> Line:
        if self.source.notebook is None or os.path.realpath(frame.path) != os.path.realpath(self.script):
            return frame
        cell, line = self.source.notebook.locate(frame.line)
        return replace(frame, path=str(self.notebook), line=line, cell=cell)


def as_script(notebook: Path, folder: Path) -> NotebookScript:
    """Write the code of a notebook to a script in a folder, without its magics.

    Raises:
        UserError: the notebook cannot be read, or has cells that are no Python.
    """
    notebook = notebook.absolute()
    try:
        source = read_source(notebook)
    except SourceError as error:
        raise UserError(f"{notebook.name} cannot be run: {error}") from error
    if source.notebook is not None and source.notebook.broken:
        broken = source.notebook.broken[0]
        raise UserError(f"{notebook.name} cannot be run: cell {broken.cell} is no Python: {broken.message}")
    script = folder / f"{notebook.stem}.py"
    script.write_text(source.text, encoding="utf-8")
    return NotebookScript(notebook, script, source)
