"""Neovim's built-in client, with the configuration that docs/editors.md gives, on the demo project."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from test_server_diagnostics import DEMO

ROOT = DEMO.parents[1]
EDITORS = ROOT / "docs" / "editors.md"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("nvim") is None, reason="Neovim is not installed"),
]


def block(mark: str) -> str:
    """The code block behind a mark in the documentation."""
    found = re.search(rf"<!-- {mark} -->\n```\w+\n(.*?)```", EDITORS.read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def programs(folder: Path) -> dict[str, str]:
    """An environment in which `dllint` is the one that is tested."""
    path = folder / "bin"
    path.mkdir()
    (path / "dllint").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m dllint "$@"\n')
    (path / "dllint").chmod(0o755)
    return {**os.environ, "PATH": f"{path}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


def test_neovim_shows_fixes_and_saves(tmp_path: Path) -> None:
    demo = Path(shutil.copytree(DEMO, tmp_path / "demo"))
    with (demo / "pyproject.toml").open("a", encoding="utf-8") as file:
        file.write('extend-select = ["PREVIEW"]\n')  # the page shows what all of them find
    (tmp_path / "init.lua").write_text(block("snippet: neovim"))
    environment = {
        **programs(tmp_path),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "FILE": "finetune.py",
        "LINE": "63",
        "CODE": "DL202",
        "TITLE": "Clear the gradients",
        "SEEN": str(tmp_path / "seen.json"),
        "SCREENS": str(tmp_path / "screens.txt"),
    }
    script = Path(__file__).with_name("neovim.lua")
    command = ["nvim", "--headless", "-n", "-u", str(tmp_path / "init.lua"), "-c", f"luafile {script}"]
    done = subprocess.run(
        command, cwd=demo, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=150
    )
    assert (tmp_path / "seen.json").exists(), done.stderr
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen.get("failure") is None, (seen, done.stderr)
    assert {(each["line"], each["code"]) for each in seen["before"]} >= {(32, "DL309"), (63, "DL202"), (64, "DL304")}
    assert "DL202" not in {each["code"] for each in seen["after"]}
    assert "zero_grad" in (demo / "finetune.py").read_text()
    assert "zero_grad" not in (DEMO / "finetune.py").read_text()
    screens = (tmp_path / "screens.txt").read_text("utf-8")
    if os.environ.get("DLLINT_UPDATE_SCREEN"):
        text = EDITORS.read_text("utf-8")
        EDITORS.write_text(text.replace(f"```text\n{block('screen: neovim')}```", f"```text\n{screens}```"), "utf-8")
    for line in block("screen: neovim").splitlines():
        assert line.partition("■")[0].strip() in screens  # messages behind the code are worded as they are now
