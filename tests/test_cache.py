"""The result cache: what is reused, what makes it invalid, and that it never changes what is reported."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from installing import MODEL, TRAINING

from dllint import worker
from dllint.config.load import ConfigLoader
from dllint.config.resolve import resolve
from dllint.config.settings import Settings
from dllint.files.source import read_source
from dllint.findings import Finding
from dllint.runner import lint_files

Lint = Callable[..., list[Finding]]

GONE = """
import numpy as np
import torch


def scaled(values):
    return torch.tensor(values.astype(np.float))
"""
PUT_BACK = """
import numpy as np

np.float = float
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "pyproject.toml").write_text("[tool.dllint]\n")
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "train.py").write_text(TRAINING)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def analysed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were analyzed and not taken from the cache."""
    names: list[str] = []
    analyse = worker.Worker.analyse

    def spy(self: worker.Worker, file: Path) -> worker.Outcome:
        names.append(file.name)
        return analyse(self, file)

    monkeypatch.setattr(worker.Worker, "analyse", spy)
    return names


def settings(project: Path) -> Settings:
    return resolve(ConfigLoader().load(project))


def lint(project: Path, *names: str, cache: bool = True) -> list[Finding]:
    files = [project / name for name in names or ("model.py", "train.py")]
    report = lint_files(files, settings(project), cache=cache)
    assert not report.problems
    return report.findings


def kept(project: Path) -> list[Path]:
    return list((project / ".dllint_cache").glob("*.json"))


def test_a_second_run_analyses_nothing_and_says_the_same(project: Path, analysed: list[str]) -> None:
    first = lint(project)
    assert [finding.code for finding in first] == ["DL101"]
    assert analysed == ["model.py", "train.py"]
    assert lint(project) == first
    assert lint(project, "train.py") == first
    assert len(analysed) == 2


def test_a_changed_file_is_analysed_again(project: Path, analysed: list[str]) -> None:
    lint(project)
    (project / "train.py").write_text(TRAINING.replace("CrossEntropyLoss", "MSELoss"))
    assert lint(project) == []
    assert analysed[2:] == ["train.py"]


def test_so_is_what_depends_on_it(project: Path, analysed: list[str]) -> None:
    lint(project)
    (project / "model.py").write_text(MODEL.replace(", nn.Softmax(dim=1)", ""))
    assert lint(project) == []
    assert sorted(analysed[2:]) == ["model.py", "train.py"]


def test_and_what_a_new_file_may_have_a_bearing_on(project: Path, analysed: list[str]) -> None:
    (project / "model.py").unlink()
    assert lint(project, "train.py") == []
    (project / "model.py").write_text(MODEL)
    assert [finding.code for finding in lint(project, "train.py")] == ["DL101"]
    assert analysed == ["train.py", "train.py"]


def test_a_new_folder_has_no_bearing_on_what_asks_for_no_other_file(project: Path, analysed: list[str]) -> None:
    """Each run of a training makes one, in a folder that the search path does not list."""
    (project / "runs" / "first").mkdir(parents=True)
    lint(project, "model.py")
    (project / "runs" / "second").mkdir()
    lint(project, "model.py")
    assert analysed == ["model.py"]


def test_nor_are_scripts_overlooked_that_nothing_imports(project: Path, analysed: list[str]) -> None:
    (project / "train.py").write_text(GONE)
    assert [finding.code for finding in lint(project, "train.py")] == ["DL842"]
    (project / "predict.py").write_text(PUT_BACK)
    assert lint(project, "train.py") == []
    (project / "predict.py").write_text(PUT_BACK.replace("np.float", "np.double"))
    assert [finding.code for finding in lint(project, "train.py")] == ["DL842"]
    assert analysed == ["train.py"] * 3


def test_files_that_cannot_be_imported_have_none(project: Path, analysed: list[str]) -> None:
    lint(project)
    (project / "notes.txt").write_text("lr 0.1")
    assert lint(project)
    assert len(analysed) == 2


def test_settings_have_results_of_their_own(project: Path, analysed: list[str]) -> None:
    lint(project)
    (project / "pyproject.toml").write_text('[tool.dllint]\nignore = ["DL101"]\n')
    assert lint(project) == []
    (project / "pyproject.toml").write_text("[tool.dllint]\n")
    assert len(lint(project)) == 1
    assert len(analysed) == 4


def test_a_changed_rule_is_run_again(project: Path, analysed: list[str]) -> None:
    rules = project / "rules"
    rules.mkdir()
    rule = rules / "dl199_anything.py"
    text = (
        '"""A rule.\n\nOf this project.\n"""\n\nfrom dllint.api import Rule\n\n\nclass Anything(Rule):\n'
        '    code = "DL199"\n    name = "anything"\n    category = "pedantic"\n    triggers = (("torch",),)\n'
    )
    rule.write_text(text)
    (project / "pyproject.toml").write_text('[tool.dllint]\nrule-paths = ["rules"]\n')
    lint(project)
    lint(project)
    assert len(analysed) == 2
    rule.write_text(text + "\n    # changed\n")
    lint(project)
    assert len(analysed) == 4


def test_suppressions_are_read_afresh(project: Path, analysed: list[str]) -> None:
    (project / "train.py").write_text(TRAINING.replace("labels)\n", "labels)  # dllint: ignore[DL101] -- wanted\n"))
    assert lint(project) == lint(project) == []
    assert len(analysed) == 2


def test_no_cache(project: Path, analysed: list[str]) -> None:
    assert lint(project, cache=False) == lint(project, cache=False)
    assert not (project / ".dllint_cache").exists()
    assert len(analysed) == 4


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[]",
        "{",
        "{}",
        '{"entries": [], "states": 3}',
        '{"entries": {"%s": {}}, "states": []}',
        '{"entries": {"%s": 3}, "states": []}',
        '{"entries": {"%s": {"digest": "%d", "dependencies": [7], "findings": []}}, "states": []}',
        '{"entries": {"%s": {"digest": "%d", "dependencies": [], "findings": [{}]}}, "states": []}',
    ],
)
def test_a_damaged_cache_is_as_good_as_none(project: Path, damage: str) -> None:
    found = lint(project)
    [file] = kept(project)
    train = project / "train.py"
    file.write_text(damage.replace("%s", str(train)).replace("%d", read_source(train).digest))
    assert lint(project) == found


def test_nothing_is_kept_of_files_that_are_gone(project: Path) -> None:
    lint(project)
    (project / "train.py").unlink()
    (project / "model.py").write_text(MODEL + "\n")
    lint(project, "model.py")
    [file] = kept(project)
    assert list(json.loads(file.read_text())["entries"]) == [str(project / "model.py")]


def test_configurations_that_are_long_gone_are_forgotten(project: Path) -> None:
    for number in range(20):
        (project / "pyproject.toml").write_text(f"[tool.dllint]\ntime-limit = {number + 1}\n")
        lint(project)
    assert 1 <= len(kept(project)) <= 12


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="needs a folder that cannot be written to")
def test_a_project_that_cannot_be_written_to(project: Path) -> None:
    project.chmod(0o500)
    try:
        assert len(lint(project)) == 1
    finally:
        project.chmod(0o700)


def test_a_cache_folder_that_is_a_file(project: Path) -> None:
    (project / ".dllint_cache").write_text("")
    assert len(lint(project)) == 1
