"""``--since``: what counts as changed, in real repositories."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from dllint.findings import Finding, Hop, Location
from dllint.since import Changes, SinceError

BASE = """\
import torch

for x in loader:
    optimizer.zero_grad()
    loss = criterion(
        model(x),
        y,
    )
    loss.backward()
    optimizer.step()
"""


def git(directory: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *arguments], cwd=directory, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    top = tmp_path / "repo"
    top.mkdir()
    monkeypatch.chdir(top)
    git(top, "init", "-b", "main")
    (top / "train.py").write_text(BASE)
    git(top, "add", ".")
    git(top, "commit", "-m", "base")
    return top


def finding(line: int, path: str = "train.py", cell: int | None = None, trace: tuple[Hop, ...] = ()) -> Finding:
    place = Location(path, line, 1, line, 2, cell)
    return Finding("DL101", "name", "wrong", place, "error", "correctness", trace=trace)


def kept(*lines: int, path: str = "train.py", revision: str = "main") -> list[int]:
    return [item.location.line for item in Changes(revision, Path.cwd()).keep([finding(line, path) for line in lines])]


ALL_LINES = range(1, 12)


def test_nothing_has_changed(repository: Path) -> None:
    assert kept(*ALL_LINES) == []


def test_a_changed_line_counts_for_its_whole_statement(repository: Path) -> None:
    (repository / "train.py").write_text(BASE.replace("        y,", "        y.long(),"))
    assert kept(*ALL_LINES) == [5, 6, 7, 8]


def test_a_deletion_counts_for_the_statements_beside_it(repository: Path) -> None:
    (repository / "train.py").write_text(BASE.replace("    optimizer.zero_grad()\n", ""))
    assert kept(*ALL_LINES) == [3, 4, 5, 6, 7]


def test_staged_committed_and_uncommitted_changes_count(repository: Path) -> None:
    git(repository, "checkout", "-b", "work")
    (repository / "train.py").write_text("import os\n" + BASE)
    git(repository, "commit", "-am", "one")
    (repository / "staged.py").write_text("x = 1\n")
    git(repository, "add", ".")
    (repository / "new file é.py").write_text("x = 1\n")
    assert kept(1, 2, 3) == [1]
    assert kept(1, path="staged.py") == [1]
    assert kept(1, path="new file é.py") == [1]


def test_what_the_other_branch_did_meanwhile_does_not_count(repository: Path) -> None:
    git(repository, "checkout", "-b", "work")
    (repository / "mine.py").write_text("x = 1\n")
    git(repository, "add", ".")
    git(repository, "commit", "-m", "mine")
    git(repository, "checkout", "main")
    (repository / "train.py").write_text("import os\n" + BASE)
    git(repository, "commit", "-am", "theirs")
    git(repository, "checkout", "work")
    assert kept(*ALL_LINES) == []
    assert kept(1, path="mine.py") == [1]


def test_a_trace_through_a_changed_statement_counts(repository: Path) -> None:
    (repository / "model.py").write_text("def forward(x):\n    return softmax(x)\n")
    through = finding(5, trace=(Hop(Location("model.py", 2, 5, 2, 9), "softmax here"),))
    assert Changes("HEAD", repository).keep([through, finding(5)]) == [through]


@pytest.mark.parametrize("name", ["a b.py", 'quo"te.py', "é.py", "tab\t.py"])
def test_names_that_git_quotes(repository: Path, name: str) -> None:
    (repository / name).write_text("a = 1\nb = 2\n")
    git(repository, "add", ".")
    git(repository, "commit", "-m", "file")
    (repository / name).write_text("a = 1\nb = 3")
    assert kept(1, 2, path=name, revision="HEAD") == [2]


def test_lines_that_look_like_a_diff_are_no_diff(repository: Path) -> None:
    text = '"""\n++ b/other.py\n@@ -1,9 +1,9 @@\n"""\n' * 2
    (repository / "train.py").write_text(text)
    git(repository, "commit", "-am", "odd")
    (repository / "train.py").write_text("x = 1\n" + text.replace("++ b", "++  b"))
    assert kept(*range(1, 10), revision="HEAD") == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert kept(1, path="other.py", revision="HEAD") == []


def test_settings_of_the_user_change_nothing(repository: Path) -> None:
    for option in ("diff.noprefix", "diff.mnemonicPrefix", "color.ui"):
        git(repository, "config", option, "always" if option == "color.ui" else "true")
    (repository / "train.py").write_text("import os\n" + BASE)
    assert kept(1, 2) == [1]


def test_a_rename_with_a_change(repository: Path) -> None:
    git(repository, "mv", "train.py", "renamed.py")
    (repository / "renamed.py").write_text(BASE.replace("optimizer.step()", "optimizer.step(None)"))
    assert kept(*ALL_LINES, path="renamed.py") == [10]


def test_from_a_folder_of_the_repository(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (repository / "src").mkdir()
    (repository / "src" / "a.py").write_text("x = 1\n")
    monkeypatch.chdir(repository / "src")
    assert kept(1, path="a.py") == [1]
    assert kept(1, path="../train.py") == []


def notebook(*sources: str, output: str = "") -> str:
    cells: list[dict[str, object]] = [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source.splitlines(True)}
        for source in sources
    ]
    return json.dumps({"cells": cells, "metadata": {"note": output}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def test_in_a_notebook_code_counts_and_outputs_do_not(repository: Path) -> None:
    path = repository / "a.ipynb"
    path.write_text(notebook("x = 1\ny = 2\n", "z = 3\n"))
    git(repository, "add", ".")
    git(repository, "commit", "-m", "notebook")
    path.write_text(notebook("x = 1\ny = 2\n", "z = 3\n", output="run again"))
    findings = [finding(line, "a.ipynb", cell) for line, cell in ((1, 1), (2, 1), (1, 2))]
    assert Changes("HEAD", repository).keep(findings) == []
    path.write_text(notebook("x = 1\ny = 5\n", "z = 3\n"))
    assert Changes("HEAD", repository).keep(findings) == [findings[1]]


class TestErrors:
    @pytest.mark.parametrize("revision", ["nowhere", "-n", "--output=x", "HEAD~9", ""])
    def test_no_such_revision(self, repository: Path, revision: str) -> None:
        with pytest.raises(SinceError, match="revision"):
            Changes(revision, repository)

    def test_no_repository(self, tmp_path: Path) -> None:
        with pytest.raises(SinceError, match="not a git repository"):
            Changes("HEAD", tmp_path)

    def test_no_git(self, repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "")
        with pytest.raises(SinceError, match="git cannot be run"):
            Changes("HEAD", repository)

    def test_no_common_ancestor(self, repository: Path) -> None:
        git(repository, "checkout", "--orphan", "island")
        git(repository, "commit", "-m", "island")
        with pytest.raises(SinceError, match="no common ancestor"):
            Changes("main", repository)

    def test_a_file_outside(self, repository: Path) -> None:
        (repository.parent / "out.py").write_text("x = 1\n")
        with pytest.raises(SinceError, match=r"out\.py is outside the git repository"):
            kept(1, path="../out.py")
