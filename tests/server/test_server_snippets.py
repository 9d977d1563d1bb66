"""The configurations that docs/editors.md gives. Neovim and Emacs run theirs; of others the form is looked at."""

from __future__ import annotations

import json
import re
import sys

import pytest
from test_server_neovim import EDITORS

from dllint.server.options import _KEYS, _camel


def section(title: str) -> str:
    """The section of the page about an editor."""
    return EDITORS.read_text("utf-8").partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def code(title: str, language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", section(title), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="reads TOML")
def test_helix_starts_the_server() -> None:
    import tomllib

    table = tomllib.loads(code("Helix", "toml"))
    assert table["language-server"]["dllint"] == {"command": "dllint", "args": ["server"]}
    (language,) = table["language"]
    assert language == {"name": "python", "language-servers": ["dllint"]}


def test_zed_starts_the_server() -> None:
    settings = json.loads(code("Zed", "json"))
    name = settings["languages"]["Python"]["language_servers"][0]
    assert settings["lsp"][name]["binary"] == {"path": "dllint", "arguments": ["server"]}


def test_every_setting_is_explained() -> None:
    named = set(re.findall(r"`(\w+)`", section("Settings")))
    assert {*map(_camel, _KEYS), "trusted", "codeLens", "workspaceDiagnostics", "config", "isolated"} <= named
