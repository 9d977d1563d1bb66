"""The demo project, cleaned up from the editor alone: every finding is mended, ignored or put into the baseline."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from server_support import Editor, run
from test_server_actions import command, edited, edits_of, offered
from test_server_diagnostics import DEMO

NOTEBOOK = "symptoms.ipynb"
PART = ("data", "engine", "finetune", "forecast", "models", "pretrain", "ranks", "teach", "train")


@dataclass
class Desk:
    """What is open: the text of each file and of each cell, by URI."""

    editor: Editor
    notebook: dict[str, Any]
    texts: dict[str, str] = field(default_factory=dict)
    used: Counter[str] = field(default_factory=Counter)

    def open(self, names: list[str]) -> None:
        """Open all files, and the notebook."""
        for name in names:
            uri = self.editor.open(name)
            self.texts[uri] = self.editor.texts[uri]
        cells, texts = [], []
        for number, cell in enumerate(self.notebook["cells"]):
            uri = self.cell(number)
            is_code = cell["cell_type"] == "code"
            kind = types.NotebookCellKind.Code if is_code else types.NotebookCellKind.Markup
            cells.append(types.NotebookCell(kind, uri))
            if is_code:
                self.texts[uri] = "".join(cell["source"])
                self.editor.versions[uri] = 1
                texts.append(types.TextDocumentItem(uri, "python", 1, self.texts[uri]))
        document = types.NotebookDocument(self.editor.uri(NOTEBOOK), "jupyter-notebook", 1, cells)
        self.editor.client.notebook_document_did_open(types.DidOpenNotebookDocumentParams(document, texts))

    def cell(self, number: int) -> str:
        return self.editor.uri(NOTEBOOK).replace("file:", "vscode-notebook-cell:") + f"#{number}"

    def replace(self, uri: str, text: str) -> None:
        """Take over a new text."""
        self.texts[uri] = text
        change = types.TextDocumentContentChangeWholeDocument(text)
        if uri.startswith("file:"):
            self.editor._send(uri, change)
            return
        self.editor.versions[uri] += 1
        document = types.VersionedTextDocumentIdentifier(self.editor.versions[uri], uri)
        contents = [types.NotebookDocumentCellContentChanges(document, [change])]
        event = types.NotebookDocumentChangeEvent(cells=types.NotebookDocumentCellChanges(text_content=contents))
        notebook = types.VersionedNotebookDocumentIdentifier(self.editor.versions[uri], self.editor.uri(NOTEBOOK))
        self.editor.client.notebook_document_did_change(types.DidChangeNotebookDocumentParams(notebook, event))

    async def left(self, uri: str) -> list[types.Diagnostic]:
        """The diagnostics of a file or a cell, but for what is faded because the baseline knows it."""
        report = await self.editor.pull(uri)
        assert isinstance(report, types.RelatedFullDocumentDiagnosticReport)
        return [each for each in report.items if each.severity != types.DiagnosticSeverity.Hint]

    async def clean(self, uri: str) -> bool:
        """Deal with the first finding of a file or a cell. False if there is none."""
        found = await self.left(uri)
        if not found:
            return False
        actions = await offered(self.editor, uri, found[0].range.start.line + 1)
        baseline = [action for title, action in actions.items() if title.startswith("Add ")]
        fixes = [action for title, action in actions.items() if action.edit and not title.startswith("Ignore ")]
        ignore = [action for title, action in actions.items() if title.startswith("Ignore ")]
        if uri.endswith("pretrain.py") and baseline:
            self.used["baseline"] += 1
            await command(self.editor, baseline[0])
            return True
        self.used["fix" if fixes else "ignore"] += 1
        action = (fixes or ignore)[0]
        for changed, edits in edits_of(self.editor, action.edit).items():
            self.replace(changed, edited(self.texts[changed], edits))
        return True

    def save(self, root: Path) -> None:
        """Write everything to disk."""
        for uri, text in self.texts.items():
            if uri.startswith("file:"):
                (root / uri.rpartition("/")[2]).write_text(text, "utf-8")
        for number, cell in enumerate(self.notebook["cells"]):
            if cell["cell_type"] == "code":
                cell["source"] = self.texts[self.cell(number)].splitlines(keepends=True)
        (root / NOTEBOOK).write_text(json.dumps(self.notebook, indent=1) + "\n", "utf-8")


@pytest.mark.slow
def test_the_demo_can_be_cleaned_up_from_the_editor(tmp_path: Path) -> None:
    root = Path(shutil.copytree(DEMO, tmp_path / "demo"))
    (root / "pyproject.toml").write_text('[tool.dllint]\nbaseline = "known.json"\n')
    for path in sorted(root.glob("*.py")):
        if path.stem not in PART:
            path.unlink()
    names = [f"{name}.py" for name in PART]

    async def scenario(editor: Editor) -> None:
        desk = Desk(editor, json.loads((root / NOTEBOOK).read_text("utf-8")))
        desk.open(names)
        for _ in range(60):
            if not any([await desk.clean(uri) for uri in desk.texts]):
                break
        assert [await desk.left(uri) for uri in desk.texts] == [[]] * len(desk.texts)
        assert desk.used["fix"] > 5 and desk.used["ignore"] > 0 and desk.used["baseline"] > 0
        desk.save(root)

    run(scenario, root)
    command_line = [sys.executable, "-m", "dllint", "--no-cache", "--output-format", "concise", "."]
    done = subprocess.run(command_line, cwd=root, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout
