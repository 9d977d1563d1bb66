"""Findings in files that are not open, for those who want them."""

from __future__ import annotations

from pathlib import Path

import pytest
from lsprotocol import types
from server_support import PULL, PUSH, Editor, codes, run
from test_server_diagnostics import MODEL, SOFTMAX, TRAIN

WANTED = {"workspaceDiagnostics": True}
WHOLE = TRAIN.replace("in loader", "in torch.load('batches.pt')")  # a saved script, in which all names are bound


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.dllint]\nselect = ["DL101"]\nexclude = ["old.py"]\nbaseline = "known.json"\n'
    )
    (tmp_path / "net.py").write_text(SOFTMAX)
    for name in ("train.py", "other.py", "old.py"):
        (tmp_path / name).write_text(WHOLE)
    return tmp_path


async def everything(editor: Editor, previous: dict[str, str] | None = None) -> dict[str, str | list[tuple[str, int]]]:
    """What is reported of files that are not open, by name; of an unchanged one, its result id."""
    known = [types.PreviousResultId(editor.uri(name), value) for name, value in (previous or {}).items()]
    report = await editor.client.workspace_diagnostic_async(types.WorkspaceDiagnosticParams(known))
    found: dict[str, str | list[tuple[str, int]]] = {}
    for item in report.items:
        is_full = isinstance(item, types.WorkspaceFullDocumentDiagnosticReport)
        found[item.uri.rpartition("/")[2]] = codes(item.items) if is_full else str(item.result_id)
    return found


async def ids(editor: Editor) -> dict[str, str]:
    report = await editor.client.workspace_diagnostic_async(types.WorkspaceDiagnosticParams([]))
    return {item.uri.rpartition("/")[2]: str(item.result_id) for item in report.items}


def test_files_that_are_not_open_are_pulled(project: Path) -> None:
    async def scenario(editor: Editor) -> None:
        assert await everything(editor) == {"train.py": [("DL101", 11)], "other.py": [("DL101", 11)]}
        known = await ids(editor)
        assert await everything(editor, known) == known
        editor.open("train.py")
        assert await editor.codes("train.py") == [("DL101", 11)]
        assert list(await everything(editor)) == ["other.py"]
        editor.close("train.py")
        assert set(await everything(editor)) == {"train.py", "other.py"}

    run(scenario, project, client=PULL, options=WANTED)


def test_a_save_brings_files_up_to_date(project: Path) -> None:
    async def scenario(editor: Editor) -> None:
        assert "other.py" in await everything(editor)
        editor.open("net.py")
        await editor.codes("net.py")
        (project / "net.py").write_text(MODEL)
        editor.change("net.py", MODEL)
        editor.save("net.py")
        await editor.codes("net.py")  # the save has been seen
        assert await everything(editor) == {"train.py": [], "other.py": []}

    run(scenario, project, client=PULL, options=WANTED)


def test_files_that_are_not_open_are_pushed(project: Path) -> None:
    async def scenario(editor: Editor) -> None:
        assert await editor.published(editor.uri("other.py"), lambda items: len(items) > 0) == [("DL101", 11)]
        uri = editor.open("train.py", WHOLE.replace("model(x), y", "x, y"))
        await editor.published(uri, lambda items: not items)
        editor.close("train.py")  # without saving: what is on disk counts
        assert await editor.published(uri, lambda items: len(items) > 0) == [("DL101", 11)]
        assert editor.uri("old.py") not in editor.client.diagnostics

    run(scenario, project, client=PUSH, options=WANTED)


@pytest.mark.parametrize("wanted", [True, False])
def test_the_server_can_be_asked_by_those_who_want(wanted: bool, project: Path) -> None:
    async def scenario(editor: Editor) -> None:
        provider = editor.capabilities.diagnostic_provider
        assert provider is not None and provider.workspace_diagnostics is wanted

    run(scenario, project, client=PULL, options={"workspaceDiagnostics": wanted})
