"""What tests of the command line share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import cli_support
import pytest
from cli_support import Result, Run

from dllint import registry
from dllint.cli import main


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty project with the small linter, as the working directory."""
    rules = tmp_path / "rules"
    rules.mkdir()
    monkeypatch.setattr(registry, "builtin_directory", registry.builtin_directory)
    monkeypatch.setitem(sys.modules, "dllint.runner", None)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    cli_support.install(rules)
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    monkeypatch.chdir(folder)
    yield folder
    registry.load_registry.cache_clear()


@pytest.fixture
def dllint(project: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs dllint and returns what came of it."""

    def run(*arguments: str) -> Result:
        code = main(list(arguments))
        out, err = capsys.readouterr()
        return Result(code, out, err)

    return run
