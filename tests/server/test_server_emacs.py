"""Eglot, the client of Emacs, with the configuration that docs/editors.md gives, on the demo project."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from test_server_diagnostics import DEMO
from test_server_neovim import block, programs


def has_eglot() -> bool:
    """Whether there is an Emacs that has Eglot."""
    emacs = shutil.which("emacs")
    return emacs is not None and subprocess.run([emacs, "--batch", "--eval", "(require 'eglot)"]).returncode == 0


@pytest.mark.slow
def test_emacs_shows_fixes_and_saves(tmp_path: Path) -> None:
    if not has_eglot():  # no Python package brings it, and Neovim's client is the one that every run of CI drives
        pytest.skip("Emacs with Eglot is not installed")
    demo = Path(shutil.copytree(DEMO, tmp_path / "demo"))
    (tmp_path / "configuration.el").write_text(block("snippet: emacs"))
    seen = tmp_path / "seen.json"
    environment = {
        **programs(tmp_path),
        "HOME": str(tmp_path),
        "CONFIGURATION": str(tmp_path / "configuration.el"),
        "FILE": str(demo / "finetune.py"),
        "LINE": "63",
        "CODE": "DL202",
        "TITLE": "Clear the gradients",
        "SEEN": str(seen),
    }
    command = ["emacs", "--batch", "-l", str(Path(__file__).with_name("emacs.el"))]
    done = subprocess.run(
        command, cwd=demo, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=240
    )
    assert done.returncode == 0 and seen.exists(), done.stderr.decode()
    shown = json.loads(seen.read_text("utf-8"))
    assert {line for line, _ in shown["before"]} >= {32, 63, 64}
    assert any("DL202" in text for _, text in shown["before"])
    assert not any("DL202" in text for _, text in shown["after"])
    assert "zero_grad" in (demo / "finetune.py").read_text("utf-8")
