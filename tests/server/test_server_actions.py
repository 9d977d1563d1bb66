"""Code actions, commands, hover and code lenses of the language server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from server_support import PULL, PUSH, Editor, run
from test_server_diagnostics import SOFTMAX, TRAIN
from test_server_notebooks import LOOP, open_notebook, uri

VS_CODE = "visual_studio_code@1.65.2"
SUPPRESSED = TRAIN.replace("model(x), y)\n", "model(x), y)  # dllint: ignore[softmax-before-cross-entropy]\n")
UNUSED = "a = 1  # dllint: ignore[DL101]\nb = 2\nc = 3  # dllint: ignore[DL101]\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[tool.dllint]\nselect = ["DL101", "DL004"]\n')
    (tmp_path / "net.py").write_text(SOFTMAX)
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "unused.py").write_text(UNUSED)
    return tmp_path


async def offered(
    editor: Editor, uri: str, line: int, only: Sequence[str] | None = None
) -> dict[str, types.CodeAction]:
    """The code actions on a line (from 1), by title."""
    where = types.Range(types.Position(line - 1, 0), types.Position(line - 1, 200))
    context = types.CodeActionContext([], only=list(only) if only is not None else None)
    params = types.CodeActionParams(types.TextDocumentIdentifier(uri), where, context)
    actions = await editor.client.text_document_code_action_async(params)
    assert all(isinstance(action, types.CodeAction) for action in actions or ())
    return {action.title: action for action in actions or () if isinstance(action, types.CodeAction)}


def edits_of(editor: Editor, edit: types.WorkspaceEdit | None) -> dict[str, list[Any]]:
    """The edits of an action by document, which are for the versions that are open."""
    assert edit is not None
    edits: dict[str, list[Any]] = {uri: list(each) for uri, each in (edit.changes or {}).items()}
    for change in edit.document_changes or ():
        assert isinstance(change, types.TextDocumentEdit)
        uri, version = change.text_document.uri, change.text_document.version
        assert version == editor.versions.get(uri, version)
        edits.setdefault(uri, []).extend(change.edits)
    return edits


def applied(editor: Editor, edit: types.WorkspaceEdit | None, uri: str, text: str) -> str:
    """A text after the edits of an action, which are about it alone."""
    edits = edits_of(editor, edit)
    assert list(edits) == [uri]
    return edited(text, edits[uri])


def edited(text: str, edits: Sequence[Any]) -> str:
    """A text after edits (ASCII, so that columns are offsets)."""
    lines = text.splitlines(keepends=True)
    starts = [sum(map(len, lines[:number])) for number in range(len(lines) + 1)]
    for each in reversed(sorted(edits, key=lambda e: (e.range.start.line, e.range.start.character))):  # noqa: C413
        start = starts[each.range.start.line] + each.range.start.character
        end = starts[each.range.end.line] + each.range.end.character
        text = text[:start] + each.new_text + text[end:]
    return text


async def command(editor: Editor, action: types.CodeAction) -> Any:
    assert action.command is not None
    params = types.ExecuteCommandParams(action.command.command, action.command.arguments)
    return await editor.client.workspace_execute_command_async(params)


def test_a_safe_fix_is_preferred(project: Path) -> None:
    async def scenario(editor: Editor) -> None:
        name = editor.open("unused.py")
        actions = await offered(editor, name, 1)
        fix = actions["Remove the suppression"]
        assert fix.is_preferred
        assert applied(editor, fix.edit, name, UNUSED).startswith("a = 1\nb = 2\n")

    run(scenario, project)


@pytest.mark.parametrize("client", [PUSH, PULL, VS_CODE])
def test_fix_all_applies_every_safe_fix(client: str, project: Path) -> None:
    async def scenario(editor: Editor) -> None:
        name = editor.open("unused.py")
        actions = await offered(editor, name, 1, only=["source.fixAll"])
        (action,) = actions.values()
        assert action.kind == "source.fixAll.dllint"
        if action.edit is None:
            action = await editor.client.code_action_resolve_async(action)
        assert applied(editor, action.edit, name, UNUSED) == "a = 1\nb = 2\nc = 3\n"

    run(scenario, project, client=client)


def test_unsafe_fixes_are_labelled_and_never_preferred(project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.dllint]\nselect = ["DL202"]\n')
    text = TRAIN.replace("    optimizer.zero_grad()\n", "")

    async def scenario(editor: Editor) -> None:
        name = editor.open("train.py", text)
        ((_, line),) = await editor.codes("train.py")
        actions = await offered(editor, name, line)
        fixes = [action for action in actions.values() if "unsafe" in action.title]
        assert fixes and not any(fix.is_preferred for fix in fixes)
        assert "zero_grad" in applied(editor, fixes[0].edit, name, text)
        assert await offered(editor, name, line, only=["source.fixAll.dllint"]) == {}

    run(scenario, project)


def test_a_finding_can_be_ignored_on_its_line(project: Path) -> None:
    async def scenario(editor: Editor) -> None:
        name = editor.open("train.py")
        (title,) = [title for title in await offered(editor, name, 11) if title.startswith("Ignore")]
        action = (await offered(editor, name, 11))[title]
        editor.change("train.py", applied(editor, action.edit, name, TRAIN))
        assert await editor.codes("train.py") == []

    run(scenario, project)


def test_a_finding_can_go_into_the_baseline(project: Path) -> None:
    table = '[tool.dllint]\nselect = ["DL101", "DL004"]\nbaseline = "known.json"\n'
    (project / "pyproject.toml").write_text(table)

    async def scenario(editor: Editor) -> None:
        name = editor.open("train.py")
        (action,) = [each for title, each in (await offered(editor, name, 11)).items() if "baseline" in title]
        await command(editor, action)
        assert len(json.loads((project / "known.json").read_text())["findings"]) == 1
        (diagnostic,) = await editor.diagnostics("train.py")
        assert diagnostic.severity == types.DiagnosticSeverity.Hint
        assert list(diagnostic.tags or ()) == [types.DiagnosticTag.Unnecessary]

    run(scenario, project)


def test_a_rule_can_be_explained(project: Path) -> None:
    async def scenario(editor: Editor) -> None:
        name = editor.open("train.py")
        (action,) = [each for title, each in (await offered(editor, name, 11)).items() if title.startswith("Explain")]
        await command(editor, action)
        (shown,) = editor.client.shown_documents
        assert "DL101" in shown.uri and shown.uri.endswith(".md")

    run(scenario, project)


@pytest.mark.parametrize(("line", "column"), [(10, 14), (0, 18)])
def test_hover_shows_the_page_of_the_rule(line: int, column: int, project: Path) -> None:
    async def scenario(editor: Editor) -> None:
        name = editor.open("train.py", "import torch  # dllint: ignore[DL201]\n" + TRAIN.partition("\n")[2])
        position = types.Position(line, column if line else 33)
        params = types.HoverParams(types.TextDocumentIdentifier(name), position)
        hover = await editor.client.text_document_hover_async(params)
        assert hover is not None and isinstance(hover.contents, types.MarkupContent)
        assert ("DL101" if line else "DL201") in hover.contents.value.partition("\n")[0]

    run(scenario, project)


@pytest.mark.parametrize(("line", "column"), [(3, 14), (0, 33)])
def test_hover_shows_the_page_in_a_notebook(line: int, column: int, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.dllint]\nselect = ["DL101"]\n')

    async def scenario(editor: Editor) -> None:
        open_notebook(editor, 'y = "\U0001f600"  # dllint: ignore[DL201]\n' + LOOP)
        await editor.pull(uri(2))
        params = types.HoverParams(types.TextDocumentIdentifier(uri(2)), types.Position(line, column))
        hover = await editor.client.text_document_hover_async(params)
        assert hover is not None and isinstance(hover.contents, types.MarkupContent)
        assert ("DL101" if line else "DL201") in hover.contents.value.partition("\n")[0]
        assert hover.range is not None and hover.range.start.line == line

    run(scenario, tmp_path)


def test_hover_elsewhere_is_silent(project: Path) -> None:
    async def scenario(editor: Editor) -> None:
        name = editor.open("train.py")
        params = types.HoverParams(types.TextDocumentIdentifier(name), types.Position(5, 3))
        assert await editor.client.text_document_hover_async(params) is None

    run(scenario, project)


@pytest.mark.parametrize("wanted", [False, True])
def test_code_lenses_name_what_trains(wanted: bool, project: Path) -> None:
    async def scenario(editor: Editor) -> None:
        name = editor.open("train.py")
        lenses = await editor.client.text_document_code_lens_async(
            types.CodeLensParams(types.TextDocumentIdentifier(name))
        )
        titles = [(lens.range.start.line, lens.command.title) for lens in lenses or () if lens.command is not None]
        expected = [(8, "optimizer: SGD · schedule: none · loss: cross_entropy")]
        assert titles == (expected if wanted else [])

    run(scenario, project, options={"codeLens": wanted})


def test_fixes_of_a_notebook_edit_its_cell(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.dllint]\nselect = ["DL101"]\n')

    async def scenario(editor: Editor) -> None:
        open_notebook(editor)
        await editor.pull(uri(2))
        actions = await offered(editor, uri(2), 3)
        (action,) = [action for title, action in actions.items() if title.startswith("Ignore")]
        ignored = applied(editor, action.edit, uri(2), LOOP)
        assert ignored == LOOP + "  # dllint: ignore[softmax-before-cross-entropy]"

    run(scenario, tmp_path)


def test_confirming_needs_a_saved_file(project: Path) -> None:
    async def scenario(editor: Editor) -> None:
        name = editor.open("train.py", TRAIN + "\n")
        (action,) = [each for title, each in (await offered(editor, name, 11)).items() if title.startswith("Confirm")]
        assert await command(editor, action) is None
        assert any("save the file" in message.message for message in editor.client.messages)

    run(scenario, project)


REAL_LOADER = 'loader = torch.load("batches.pt")\n'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("loader", "answer", "shown"), [(REAL_LOADER, "confirmed", "at run time: confirmed"), ("", None, "")]
)
def test_a_run_settles_a_finding(loader: str, answer: str | None, shown: str, project: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save([(torch.randn(8, 4), torch.randint(2, (8,))) for _ in range(40)], project / "batches.pt")
    text = TRAIN.replace("for x, y", f"{loader}for x, y")
    (project / "train.py").write_text(text)

    async def scenario(editor: Editor) -> None:
        name = editor.open("train.py")
        ((_, line),) = await editor.codes("train.py")
        (action,) = [each for title, each in (await offered(editor, name, line)).items() if title.startswith("Confirm")]
        assert await command(editor, action) == answer
        messages = [diagnostic.message for diagnostic in await editor.diagnostics("train.py")]
        assert any(message.startswith(shown) for message in messages)
        assert len(messages) == (2 if shown else 1)
        assert bool(editor.client.messages) is not bool(shown)  # without a loader the script fails, which is told

    run(scenario, project, client=PULL)


def test_nothing_is_run_in_a_folder_that_is_not_trusted(project: Path) -> None:
    async def scenario(editor: Editor) -> None:
        name = editor.open("train.py")
        (action,) = [each for title, each in (await offered(editor, name, 11)).items() if title.startswith("Confirm")]
        assert await command(editor, action) is None
        assert any("not trusted" in message.message for message in editor.client.messages)

    run(scenario, project, options={"trusted": False})


def test_a_command_on_a_finding_that_is_gone_says_so(project: Path) -> None:
    async def scenario(editor: Editor) -> None:
        name = editor.open("train.py")
        params = types.ExecuteCommandParams("dllint.addToBaseline", [name, ["DL101", None, 1, 1, 1, 1]])
        await editor.client.workspace_execute_command_async(params)
        await asyncio.sleep(0.1)
        assert any("no longer there" in message.message for message in editor.client.messages)

    run(scenario, project)
