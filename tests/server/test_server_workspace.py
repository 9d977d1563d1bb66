"""The language server's surroundings: configuration, trust, folders, files that change on disk, ways to connect."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest
from lsprotocol import types
from pytest_lsp.client import make_test_lsp_client
from server_support import PUSH, Editor, run
from test_server_diagnostics import MODEL, SOFTMAX, TRAIN

RULE = '''\
"""Reports every loss."""

from dllint.api import Context, LossCall, Rule


class AnyLoss(Rule):
    """Reports every loss."""

    code = "DL998"
    name = "any-loss"
    category = "suspicious"

    def on_loss_call(self, event: LossCall, ctx: Context):
        yield ctx.finding(self, event.site, "a loss")
'''


def project(root: Path, table: str) -> Path:
    root.mkdir(exist_ok=True)
    (root / "pyproject.toml").write_text(f"[tool.dllint]\n{table}\n")
    (root / "net.py").write_text(SOFTMAX)
    (root / "train.py").write_text(TRAIN)
    return root


async def touched(editor: Editor, name: str) -> None:
    """Let the editor report that a file has changed on disk."""
    event = types.FileEvent(editor.uri(name), types.FileChangeType.Changed)
    editor.client.workspace_did_change_watched_files(types.DidChangeWatchedFilesParams([event]))
    await asyncio.sleep(0.2)  # notifications are not answered, and their work begins on another thread


def test_a_change_of_the_configuration_takes_effect(tmp_path: Path) -> None:
    root = project(tmp_path, 'select = ["DL201"]')

    async def scenario(editor: Editor) -> None:
        editor.open("train.py")
        assert await editor.codes("train.py") == []
        (root / "pyproject.toml").write_text('[tool.dllint]\nselect = ["DL101"]\n')
        await touched(editor, "pyproject.toml")
        assert await editor.codes("train.py") == [("DL101", 11)]

    run(scenario, root)


def test_without_watching_a_save_reloads_the_configuration(tmp_path: Path) -> None:
    root = project(tmp_path, 'select = ["DL201"]')

    async def scenario(editor: Editor) -> None:
        uri = editor.open("train.py")
        await editor.published(uri, lambda items: not items)
        (root / "pyproject.toml").write_text('[tool.dllint]\nselect = ["DL101"]\n')
        editor.save("train.py")
        assert await editor.published(uri, lambda items: len(items) > 0) == [("DL101", 11)]

    run(scenario, root, client=PUSH)


def test_a_file_that_changes_on_disk_counts(tmp_path: Path) -> None:
    root = project(tmp_path, 'select = ["DL101"]')

    async def scenario(editor: Editor) -> None:
        editor.open("train.py")
        assert await editor.codes("train.py") == [("DL101", 11)]
        (root / "net.py").write_text(MODEL)
        await touched(editor, "net.py")
        assert await editor.codes("train.py") == []

    run(scenario, root)


def test_a_broken_configuration_is_reported_and_replaced_by_the_default(tmp_path: Path) -> None:
    root = project(tmp_path, 'selekt = ["DL101"]')

    async def scenario(editor: Editor) -> None:
        editor.open("train.py")
        assert ("DL101", 11) in await editor.codes("train.py")
        assert any("pyproject.toml:2" in message.message for message in editor.client.messages)

    run(scenario, root)


def test_settings_of_the_client_win(tmp_path: Path) -> None:
    root = project(tmp_path, 'select = ["DL201"]')

    async def scenario(editor: Editor) -> None:
        editor.open("train.py")
        assert await editor.codes("train.py") == [("DL101", 11)]

    run(scenario, root, options={"select": ["DL101"]})


@pytest.mark.parametrize("trusted", [False, True])
def test_rule_files_are_loaded_in_trusted_folders_only(trusted: bool, tmp_path: Path) -> None:
    root = project(tmp_path, 'select = ["DL998", "DL101"]\nrule-paths = ["rules"]')
    (root / "rules").mkdir()
    (root / "rules" / "dl998_any_loss.py").write_text(RULE)

    async def scenario(editor: Editor) -> None:
        editor.open("train.py")
        found = await editor.codes("train.py")
        assert found == ([("DL101", 11), ("DL998", 11)] if trusted else [("DL101", 11)])
        assert any("not trusted" in message.message for message in editor.client.messages) is not trusted

    run(scenario, root, options={"trusted": trusted})


def test_each_folder_has_its_own_configuration(tmp_path: Path) -> None:
    project(tmp_path / "one", 'select = ["DL101"]')
    project(tmp_path / "two", 'select = ["DL201"]')

    async def scenario(editor: Editor) -> None:
        editor.open("one/train.py")
        editor.open("two/train.py")
        assert await editor.codes("one/train.py") == [("DL101", 11)]
        assert await editor.codes("two/train.py") == []

    run(scenario, tmp_path)


def test_a_new_file_is_found_before_it_is_saved(tmp_path: Path) -> None:
    root = project(tmp_path, 'select = ["DL101"]')
    (root / "net.py").unlink()

    async def scenario(editor: Editor) -> None:
        editor.open("train.py")
        assert await editor.codes("train.py") == []
        editor.open("net.py", SOFTMAX)
        assert await editor.codes("train.py") == [("DL101", 11)]

    run(scenario, root)


def test_the_server_listens_on_a_port(tmp_path: Path) -> None:
    root = project(tmp_path, 'select = ["DL101"]')
    with subprocess.Popen(
        [sys.executable, "-m", "dllint", "server", "--tcp", "0"], stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None
        line = next(line for line in server.stderr if "Serving on" in line)
        port = int(re.findall(r"\d+", line)[-1])

        async def scenario() -> None:
            client = make_test_lsp_client()
            await client.start_tcp("127.0.0.1", port)
            answer = await client.initialize_session(
                types.InitializeParams(types.ClientCapabilities(), root_uri=root.as_uri())
            )
            assert answer.server_info is not None and answer.server_info.name == "dllint"
            await client.shutdown_session()

        try:
            asyncio.run(asyncio.wait_for(scenario(), 30))
        finally:
            server.kill()


def test_the_missing_extra_is_explained(tmp_path: Path) -> None:
    (tmp_path / "pygls.py").write_text("raise ModuleNotFoundError(name='pygls')\n")
    done = subprocess.run(
        [sys.executable, "-m", "dllint", "server"],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path), "PATH": ""},
    )
    assert done.returncode == 2
    assert "dllint[lsp]" in done.stderr


@pytest.mark.parametrize("address", ["x", "1:2:y", "99999"])
def test_a_wrong_address_is_refused(address: str) -> None:
    done = subprocess.run([sys.executable, "-m", "dllint", "server", "--tcp", address], capture_output=True, text=True)
    assert done.returncode == 2
    assert "[HOST:]PORT" in done.stderr
