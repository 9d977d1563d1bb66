"""``--since``: a change brings findings about lines that have not changed, and is compared with what there was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from installing import MODEL, TRAINING
from test_cache import GONE, PUT_BACK
from test_since import git

from dllint import runner, worker
from dllint.cli import main

UNRELATED = "import torch\n\n" + TRAINING.replace("from model import Net", "").replace("Net()", "torch.nn.Linear(3, 2)")
LONG = TRAINING.replace(
    "        loss = criterion", "        print(images.shape)\n        print(labels.shape)\n        loss = criterion"
)
Told = Callable[..., list[str]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    top = tmp_path / "repo"
    (top / "apps").mkdir(parents=True)
    monkeypatch.chdir(top)
    git(top, "init", "-b", "main")
    (top / ".gitignore").write_text(".dllint_cache\n")
    (top / "model.py").write_text(MODEL)
    (top / "train.py").write_text(LONG)
    (top / "apps" / "kept.py").write_text(GONE)
    (top / "apps" / "predict.py").write_text(PUT_BACK)
    (top / "apps" / "other.py").write_text(UNRELATED)
    git(top, "add", ".")
    git(top, "commit", "-m", "base")
    return top


@pytest.fixture
def told(project: Path, capsys: pytest.CaptureFixture[str]) -> Told:
    """Runs dllint, and says what it reports as ``path:line code``."""

    def run(*arguments: str) -> list[str]:
        main(["--output-format", "jsonl", *arguments])
        lines = map(json.loads, capsys.readouterr().out.splitlines())
        return [f"{found['path']}:{found['line']} {found['code']}" for found in lines]

    return run


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_deleted_call_is_missed_lines_away(project: Path, told: Told) -> None:
    assert told() == ["train.py:14 DL101"]
    assert told("--since", "HEAD") == []
    edit(project / "train.py", "        optimizer.zero_grad()\n", "")
    assert told("--since", "HEAD") == ["train.py:15 DL202"]
    assert told("--since", "HEAD", "train.py") == ["train.py:15 DL202"]
    assert told("--since", "HEAD", "--no-cache") == ["train.py:15 DL202"]
    git(project, "commit", "-am", "deleted")
    assert told("--since", "HEAD") == []
    assert told("--since", "HEAD~1") == ["train.py:15 DL202"]


def test_so_is_a_deleted_file(project: Path, told: Told) -> None:
    (project / "apps" / "predict.py").unlink()
    assert told("--since", "HEAD") == ["apps/kept.py:7 DL842"]
    git(project, "rm", "apps/predict.py")
    assert told("--since", "HEAD", "apps") == ["apps/kept.py:7 DL842"]


def test_what_has_moved_is_not_new(project: Path, told: Told) -> None:
    git(project, "mv", "train.py", "apps/learn.py")
    edit(project / "apps" / "learn.py", "from model import Net\n", "from model import Net\n\nprint(1)\n")
    edit(project / "apps" / "learn.py", "        optimizer.zero_grad()\n", "")
    assert told() == ["apps/learn.py:15 DL101", "apps/learn.py:17 DL202"]
    assert told("--since", "HEAD") == ["apps/learn.py:17 DL202"]


def test_nor_what_stood_in_a_notebook(project: Path, told: Told) -> None:
    def notebook(code: str) -> str:
        cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": 1, "source": code}
        return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})

    (project / "run.ipynb").write_text(notebook(LONG))
    git(project, "add", ".")
    git(project, "commit", "-m", "notebook")
    (project / "run.ipynb").write_text(notebook(LONG.replace("        optimizer.zero_grad()\n", "")))
    assert told("run.ipynb") == ["run.ipynb:13 DL101", "run.ipynb:15 DL202"]
    assert told("--since", "HEAD") == ["run.ipynb:15 DL202"]


def test_the_second_of_two_equal_ones_is_told_from_the_first(project: Path, told: Told) -> None:
    twice = LONG + "        loss = criterion(model(images), labels)\n"
    (project / "train.py").write_text(twice)
    git(project, "commit", "-am", "twice")
    main(["baseline"])
    edit(project / "train.py", "from torch import nn, optim\n", "from torch import nn, optim\n\n\n")
    assert told("--since", "HEAD") == []
    assert [line.split()[1] for line in told("--since", "HEAD", "--isolated")] == []


def test_below_a_link_and_in_a_folder(
    project: Path, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "apps" / "predict.py").unlink()
    (tmp_path / "link").symlink_to(project)
    for folder, name in (("repo/apps", "kept.py"), ("link", "apps/kept.py"), ("link/apps", "kept.py")):
        monkeypatch.chdir(tmp_path / folder)
        monkeypatch.setenv("PWD", str(tmp_path / folder))
        assert told("--since", "HEAD", ".") == [f"{name}:7 DL842"]


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    analyse = worker.Worker.analyse

    def spy(self: worker.Worker, file: Path) -> worker.Outcome:
        names.append(file.name)
        return analyse(self, file)

    monkeypatch.setattr(worker.Worker, "analyse", spy)
    return names


def test_only_what_a_change_may_concern_is_analysed_again(project: Path, told: Told, analysed: list[str]) -> None:
    told()
    analysed.clear()
    edit(project / "apps" / "other.py", "import torch\n", "import torch  # the library\n")
    assert told("--since", "HEAD") == []
    analysed.clear()
    assert told("--since", "HEAD") == []
    assert analysed == ["train.py"]  # has a finding, and asked all files of the project for a word


def test_nothing_is_compared_where_no_code_has_changed(
    project: Path, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    lint_files = runner.lint_files

    def spy(*arguments: object, **options: object) -> object:
        calls.append(1)
        return lint_files(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(runner, "lint_files", spy)
    (project / "notes.md").write_text("lr 0.1\n")
    assert told("--since", "HEAD") == []
    assert calls == [1]
