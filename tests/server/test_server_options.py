"""The settings of an editor: all that the command line takes, asked for by folder, read again when files change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pytest_lsp import LanguageClient
from server_support import Editor, run
from test_server_workspace import project

from dllint.config.schema import KEYS
from dllint.config.selectors import ENGINE_CODES
from dllint.server.options import _KEYS, Folder, Options, _camel

MANIFEST = Path(__file__).resolve().parents[2] / "editors" / "vscode" / "package.json"
ELSEWHERE = {
    "extend",
    "fail-on",
    "notes",
    "confidence",
    "fix-safety",
    "ban",
}  # of files, exit codes and lists: an editor has no use for them
VS_CODE = "visual_studio_code@1.65.2"


def test_every_key_of_the_configuration_is_a_setting() -> None:
    assert {key.name for key in KEYS} - ELSEWHERE == set(_KEYS)


def test_every_setting_is_one_of_the_extension() -> None:
    settings = json.loads(MANIFEST.read_text("utf-8"))["contributes"]["configuration"]["properties"]
    own = {"isolated", "codeLens", "workspaceDiagnostics", "config"}
    assert {f"dllint.{name}" for name in {*map(_camel, _KEYS), *own}} <= set(settings)


@pytest.mark.parametrize(
    ("given", "selected"),
    [
        ({}, {"DL101"}),
        ({"select": ["DL201", "DL202"]}, {"DL201", "DL202"}),
        ({"extendSelect": ["DL201"]}, {"DL101", "DL201"}),
        ({"config": "other.toml"}, {"DL303"}),
        ({"isolated": True, "select": ["DL202"]}, {"DL202"}),
    ],
)
def test_settings_of_the_editor_come_first(given: dict[str, Any], selected: set[str], tmp_path: Path) -> None:
    root = project(tmp_path, 'select = ["DL101"]\nexclude = ["old"]')
    (root / "other.toml").write_text('select = ["DL303"]\n')
    settings = Folder(root, Options.of(given)).settings(root / "train.py")
    assert settings is not None and settings.enabled - set(ENGINE_CODES) == selected
    assert bool(settings.exclude) is ("config" not in given and not given.get("isolated"))


def test_what_is_of_the_wrong_type_is_left_out() -> None:
    assert Options.of({"trusted": "yes", "codeLens": 1, "config": 3}) == Options(overrides={})
    assert Options.of(["select"]) == Options()


def test_each_folder_may_have_settings_of_its_own(tmp_path: Path) -> None:
    one, two = project(tmp_path / "one", "").as_uri(), project(tmp_path / "two", "").as_uri()

    async def scenario(editor: Editor) -> None:
        editor.client.set_configuration({"dllint": {"select": ["DL101"]}}, scope_uri=one)
        editor.client.set_configuration({"dllint": {"select": ["DL201"]}}, scope_uri=two)
        event = types.WorkspaceFoldersChangeEvent(
            [types.WorkspaceFolder(one, "one"), types.WorkspaceFolder(two, "two")],
            [types.WorkspaceFolder(tmp_path.as_uri(), tmp_path.name)],
        )
        editor.client.workspace_did_change_workspace_folders(types.DidChangeWorkspaceFoldersParams(event))
        for folder in ("one", "two"):
            editor.open(f"{folder}/train.py")
        assert await _settled(editor, "one/train.py", [("DL101", 11)]) == [("DL101", 11)]
        assert await _settled(editor, "two/train.py", []) == []

    run(scenario, tmp_path, client=VS_CODE)


async def _settled(editor: Editor, name: str, wanted: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """The diagnostics of a file once they are as wanted: the server asks for settings before it takes them over."""
    return await editor.published(editor.uri(name), lambda items: len(items) == len(wanted))


def test_configuration_files_are_watched(tmp_path: Path) -> None:
    root = project(tmp_path, "")
    watched: list[str] = []

    def prepare(client: LanguageClient) -> None:
        @client.feature(types.CLIENT_REGISTER_CAPABILITY)
        def register(params: types.RegistrationParams) -> None:
            for registration in params.registrations:
                assert registration.method == types.WORKSPACE_DID_CHANGE_WATCHED_FILES
                watched.extend(each["globPattern"] for each in registration.register_options["watchers"])

    async def scenario(editor: Editor) -> None:
        editor.open("train.py")
        await editor.published(editor.uri("train.py"), lambda items: True)
        assert {"**/pyproject.toml", "**/dllint.toml", "**/*.py", "**/.dllint_baseline.json"} <= set(watched)

    run(scenario, root, client=VS_CODE, prepare=prepare)
