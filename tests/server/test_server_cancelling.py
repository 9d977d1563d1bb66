"""What is given up: requests taken back, checks that an edit makes obsolete, runs that nobody waits for."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcRequestCancelled
from server_support import TIMEOUT, Editor, run
from test_server_actions import VS_CODE, offered
from test_server_diagnostics import SOFTMAX, TRAIN

from dllint.config.load import ConfigLoader
from dllint.config.resolve import resolve
from dllint.server.session import Session

ENDLESS = TRAIN.replace("for x, y", "import time\nwhile True: time.sleep(0.1)\nfor x, y")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text('[tool.dllint]\nselect = ["DL101"]\n')
    (tmp_path / "net.py").write_text(SOFTMAX)
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def test_a_request_can_be_taken_back(project: Path) -> None:
    long = TRAIN + "".join(f"\n\ndef f{n}(model, x, y):\n    return criterion(model(x), y)\n" for n in range(400))

    async def scenario(editor: Editor) -> None:
        params = types.DocumentDiagnosticParams(types.TextDocumentIdentifier(editor.open("train.py", long)))
        asked = editor.client.protocol.send_request(types.TEXT_DOCUMENT_DIAGNOSTIC, params, msg_id="taken back")
        editor.client.cancel_request(types.CancelParams("taken back"))
        with pytest.raises(JsonRpcException) as caught:
            await asyncio.wait_for(asyncio.wrap_future(asked), TIMEOUT)
        assert caught.value.code == JsonRpcRequestCancelled.CODE
        assert await editor.codes("train.py") == [("DL101", 11)]

    run(scenario, project)


def test_an_edit_makes_the_check_of_other_files_obsolete(project: Path) -> None:
    session = Session(resolve(ConfigLoader().load(project)), project)
    net, train = project / "net.py", project / "train.py"
    texts = {net: SOFTMAX, train: TRAIN}
    assert [path for path, _ in session.check(texts, [net, train], lambda: False)] == [net, train]
    texts[net] = SOFTMAX.replace("softmax", "relu")
    shown = [path for path, _ in session.check(texts, [net, train], lambda: True)]
    assert train not in shown  # not looked at again yet
    texts[net] = SOFTMAX.replace("dim=1", "dim=-1")
    results = dict(session.check(texts, [net, train], lambda: False))
    assert [finding.code for finding in session._results[train].findings] == ["DL101"]
    texts[net] = SOFTMAX.replace(".softmax(dim=1)", "")
    results = dict(session.check(texts, [net, train], lambda: False))
    assert results[train].findings == []


@pytest.mark.slow
@pytest.mark.parametrize("who_leaves", ["the user", "the client"])
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks for processes as Linux shows them")
def test_a_run_can_be_given_up(who_leaves: str, project: Path) -> None:
    pytest.importorskip("torch")
    (project / "train.py").write_text(ENDLESS)

    async def scenario(editor: Editor) -> None:
        uri = editor.open("train.py")
        ((_, line),) = await editor.codes("train.py")
        (action,) = [each for title, each in (await offered(editor, uri, line)).items() if title.startswith("Confirm")]
        assert action.command is not None
        params = types.ExecuteCommandParams(action.command.command, action.command.arguments)
        asked = asyncio.ensure_future(editor.client.workspace_execute_command_async(params))
        await _until_running(project / "train.py")
        if who_leaves == "the client":
            asked.add_done_callback(lambda done: done.exception())
            return
        (token,) = editor.client.progress_reports
        editor.client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token))
        assert await asyncio.wait_for(asked, TIMEOUT) is None
        assert _running(project / "train.py") == 0

    run(scenario, project, client=VS_CODE)
    end = time.monotonic() + TIMEOUT
    while _running(project / "train.py"):
        assert time.monotonic() < end, "the script goes on"
        time.sleep(0.05)


async def _until_running(script: Path) -> None:
    """Wait until a script is run: by a process of its own, beside the one that watches it."""
    end = time.monotonic() + TIMEOUT
    while _running(script) < 2:
        assert time.monotonic() < end, "the script was not run"
        await asyncio.sleep(0.05)


def _running(script: Path) -> int:
    """The number of processes whose command names a script."""
    count = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            count += os.fsencode(script) in (folder / "cmdline").read_bytes()
        except OSError:
            continue  # it has ended
    return count
