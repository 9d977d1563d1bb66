"""Notebooks in the language server: one module of all cells, diagnostics by cell."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types
from server_support import PULL, PUSH, Editor, codes, run

SETUP = """\
%matplotlib inline
import torch
from torch import nn
model = nn.Sequential(nn.Linear(4, 2), nn.Softmax(dim=1))
"""
LOOP = "criterion = nn.CrossEntropyLoss()\nfor x, y in loader:\n    print(criterion(model(x), y))"


def cell(number: int, kind: types.NotebookCellKind = types.NotebookCellKind.Code) -> types.NotebookCell:
    return types.NotebookCell(kind, f"vscode-notebook-cell:/nb.ipynb#{number}")


def text(number: int, source: str, language: str = "python") -> types.TextDocumentItem:
    return types.TextDocumentItem(f"vscode-notebook-cell:/nb.ipynb#{number}", language, 1, source)


def uri(number: int) -> str:
    return f"vscode-notebook-cell:/nb.ipynb#{number}"


def open_notebook(editor: Editor, loop: str = LOOP) -> str:
    """Open a notebook of a heading and two code cells."""
    notebook = editor.uri("nb.ipynb")
    cells = [cell(0, types.NotebookCellKind.Markup), cell(1), cell(2)]
    document = types.NotebookDocument(notebook, "jupyter-notebook", 1, cells)
    texts = [text(1, SETUP), text(2, loop)]
    editor.client.notebook_document_did_open(types.DidOpenNotebookDocumentParams(document, texts))
    return notebook


def change(editor: Editor, notebook: str, version: int, cells: types.NotebookDocumentCellChanges) -> None:
    document = types.VersionedNotebookDocumentIdentifier(version, notebook)
    event = types.NotebookDocumentChangeEvent(cells=cells)
    editor.client.notebook_document_did_change(types.DidChangeNotebookDocumentParams(document, event))


def typed(number: int, line: int, start: int, end: int, new: str) -> types.NotebookDocumentCellContentChanges:
    where = types.Range(types.Position(line, start), types.Position(line, end))
    document = types.VersionedTextDocumentIdentifier(2, uri(number))
    return types.NotebookDocumentCellContentChanges(document, [types.TextDocumentContentChangePartial(where, new)])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[tool.dllint]\nselect = ["DL101"]\n')
    return tmp_path


async def found(editor: Editor, number: int) -> list[tuple[str, int]]:
    report = await editor.pull(uri(number))
    assert isinstance(report, types.RelatedFullDocumentDiagnosticReport)
    return codes(report.items)


def test_diagnostics_are_pushed_to_the_cell(root: Path) -> None:
    async def scenario(editor: Editor) -> None:
        open_notebook(editor)
        assert await editor.published(uri(2), lambda items: len(items) > 0) == [("DL101", 3)]
        assert await editor.published(uri(1), lambda items: True) == []

    run(scenario, root, client=PUSH)


def test_edits_of_one_cell_count_in_another(root: Path) -> None:
    async def scenario(editor: Editor) -> None:
        notebook = open_notebook(editor)
        assert await found(editor, 2) == [("DL101", 3)]
        change(editor, notebook, 2, types.NotebookDocumentCellChanges(text_content=[typed(1, 3, 39, 56, "nn.ReLU()")]))
        assert await found(editor, 2) == []

    run(scenario, root, client=PULL)


def test_related_information_names_the_cell(root: Path) -> None:
    async def scenario(editor: Editor) -> None:
        open_notebook(editor)
        report = await editor.pull(uri(2))
        assert isinstance(report, types.RelatedFullDocumentDiagnosticReport)
        (diagnostic,) = report.items
        assert uri(1) in [each.location.uri for each in diagnostic.related_information or ()]

    run(scenario, root, client=PULL)


def test_cells_can_be_inserted_moved_and_removed(root: Path) -> None:
    async def scenario(editor: Editor) -> None:
        notebook = open_notebook(editor)
        assert await found(editor, 2) == [("DL101", 3)]
        inserted = types.NotebookDocumentCellChangeStructure(
            types.NotebookCellArrayChange(1, 0, [cell(3)]), did_open=[text(3, "print(1)\nprint(2)")]
        )
        change(editor, notebook, 2, types.NotebookDocumentCellChanges(structure=inserted))
        assert await found(editor, 2) == [("DL101", 3)]
        removed = types.NotebookDocumentCellChangeStructure(
            types.NotebookCellArrayChange(2, 1, []), did_close=[types.TextDocumentIdentifier(uri(1))]
        )
        change(editor, notebook, 3, types.NotebookDocumentCellChanges(structure=removed))
        assert await found(editor, 2) == []
        assert await found(editor, 1) == []

    run(scenario, root, client=PULL)


def test_a_broken_cell_keeps_the_last_good_result(root: Path) -> None:
    async def scenario(editor: Editor) -> None:
        notebook = open_notebook(editor)
        assert await found(editor, 2) == [("DL101", 3)]
        change(editor, notebook, 2, types.NotebookDocumentCellChanges(text_content=[typed(1, 1, 0, 0, "import (\n")]))
        assert [code for code, _ in await found(editor, 1)] == ["DL001"]
        assert await found(editor, 2) == [("DL101", 3)]

    run(scenario, root, client=PULL)


def test_cells_that_were_run_in_another_order_are_hinted_at(root: Path) -> None:
    async def scenario(editor: Editor) -> None:
        notebook = open_notebook(editor)
        ran = [
            types.NotebookCell(
                types.NotebookCellKind.Code, uri(number), execution_summary=types.ExecutionSummary(order)
            )
            for number, order in ((1, 7), (2, 3))
        ]
        change(editor, notebook, 2, types.NotebookDocumentCellChanges(data=ran))
        report = await editor.pull(uri(2))
        assert isinstance(report, types.RelatedFullDocumentDiagnosticReport)
        (diagnostic,) = report.items
        assert "last run in the order 3, 2" in diagnostic.message

    run(scenario, root, client=PULL)
