"""The hooks of ``.pre-commit-hooks.yaml``, run by pre-commit itself on scratch repositories."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from installing import FINDING, MODEL, TRAINING, copy_checkout, make_repository, run

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pre-commit")]  # all share one environment of the hooks

CHECKPOINTED = """\
from torch.utils.checkpoint import checkpoint


def forward(block, x):
    return checkpoint(block, x)
"""
NOTEBOOK = {
    "cells": [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Training"]},
        {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": [], "source": MODEL},
        {
            "cell_type": "code",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": TRAINING.replace("from model import Net\n", ""),
        },
    ],
    "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    "nbformat": 4,
    "nbformat_minor": 4,
}


@dataclass
class Scratch:
    """A repository that uses the hooks."""

    folder: Path
    home: Path

    def add(self, name: str, text: str) -> Path:
        """Write a file and stage it."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        run("git", "add", name, cwd=self.folder)
        return path

    def commit(self, hook: str, *, expect: int) -> str:
        """Run a hook as a commit does. Returns what pre-commit says."""
        home = f"PRE_COMMIT_HOME={self.home}"
        return run("env", home, sys.executable, "-m", "pre_commit", "run", hook, cwd=self.folder, expect=expect)


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The configuration that names the hooks at a committed revision, and the folder with their environment."""
    folder = tmp_path_factory.mktemp("hooks")
    source = copy_checkout(folder / "source")
    revision = make_repository(source)
    config = {"repos": [{"repo": str(source), "rev": revision, "hooks": [{"id": "dllint"}, {"id": "dllint-fix"}]}]}
    return json.dumps(config), folder / "home"


@pytest.fixture
def scratch(hooks: tuple[str, Path], tmp_path: Path) -> Scratch:
    config, home = hooks
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "README").write_text("A project.\n")
    (folder / ".pre-commit-config.yaml").write_text(config)  # JSON is YAML
    make_repository(folder)
    return Scratch(folder, home)


def test_no_files(scratch: Scratch) -> None:
    scratch.add("notes.txt", "nothing to lint\n")
    assert "(no files to check)Skipped" in scratch.commit("dllint", expect=0)


def test_clean_file(scratch: Scratch) -> None:
    scratch.add("model.py", MODEL)
    assert "Passed" in scratch.commit("dllint", expect=0)


def test_finding(scratch: Scratch) -> None:
    scratch.add("model.py", MODEL)
    scratch.add("train.py", TRAINING)
    assert FINDING in scratch.commit("dllint", expect=1)


def test_finding_that_the_committed_file_causes_elsewhere(scratch: Scratch) -> None:
    scratch.add("model.py", MODEL.replace(", nn.Softmax(dim=1)", ""))
    scratch.add("train.py", TRAINING)
    assert "Passed" in scratch.commit("dllint", expect=0)
    run("git", "-c", "user.name=a", "-c", "user.email=a@b.c", "commit", "--quiet", "-m", "both", cwd=scratch.folder)
    scratch.add("model.py", MODEL)
    assert FINDING in scratch.commit("dllint", expect=1)


def test_excluded_file(scratch: Scratch) -> None:
    scratch.add("pyproject.toml", '[tool.dllint]\nexclude = ["old/"]\n')
    scratch.add("old/model.py", MODEL)
    scratch.add("old/train.py", TRAINING)
    assert "Passed" in scratch.commit("dllint", expect=0)


def test_syntax_error(scratch: Scratch) -> None:
    scratch.add("train.py", "for batch in loader\n    pass\n")
    assert "train.py:1:20: error[DL001] syntax-error: expected ':'" in scratch.commit("dllint", expect=1)


def test_notebook(scratch: Scratch) -> None:
    scratch.add("train.ipynb", json.dumps(NOTEBOOK))
    said = scratch.commit("dllint", expect=1)
    assert "train.ipynb:cell 3:11:16: error[DL101]" in said


def test_broken_configuration(scratch: Scratch) -> None:
    scratch.add("dllint.toml", "selct = []\n")
    scratch.add("model.py", MODEL)
    said = scratch.commit("dllint", expect=1)
    assert "- exit code: 2" in said
    assert "did you mean `select`?" in said


def test_fix_changes_files_and_fails_once(scratch: Scratch) -> None:
    file = scratch.add("block.py", CHECKPOINTED)
    said = scratch.commit("dllint-fix", expect=1)
    assert "- files were modified by this hook" in said
    assert "exit code" not in said
    assert "checkpoint(block, x, use_reentrant=False)" in file.read_text()
    run("git", "add", "block.py", cwd=scratch.folder)
    assert "Passed" in scratch.commit("dllint-fix", expect=0)


def test_fix_leaves_what_changes_numbers(scratch: Scratch) -> None:
    scratch.add("model.py", MODEL)
    file = scratch.add("train.py", TRAINING)
    said = scratch.commit("dllint-fix", expect=1)
    assert FINDING in said
    assert "- exit code: 1" in said and "modified" not in said
    assert file.read_text() == TRAINING
