"""Scripts find their files as they left them, and the user finds them as they were."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from confirm_support import SCRIPTS, observed

pytestmark = pytest.mark.slow

TREE = {
    "runs/old/a.pt": "a",
    "runs/old/b.pt": "b",
    "data/keep.txt": "text",
    "data/more/deep.txt": "deep",
    "single.txt": "single",
}


def plant(folder: Path) -> None:
    for name, text in TREE.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def content(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_the_script_does_what_it_does_without_dllint(tmp_path: Path) -> None:
    plant(tmp_path)
    done = subprocess.run([sys.executable, SCRIPTS / "files.py"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("DONE\n", "")
    assert content(tmp_path) != TREE


def test_under_probes_it_does_the_same_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    plant(tmp_path)
    monkeypatch.chdir(tmp_path)
    outcome = observed(SCRIPTS / "files.py")
    assert (outcome.exit_code, capfd.readouterr().err) == (0, "DONE\n")
    assert content(tmp_path) == TREE
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "runs", "single.txt"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_processes_write_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for folder in range(40):
        (tmp_path / str(folder) / "deep/er").mkdir(parents=True)
        (tmp_path / str(folder) / "shared.txt").write_text("x" * 200_000)
    before = content(tmp_path)
    monkeypatch.chdir(tmp_path)
    observed(SCRIPTS / "writers.py")
    assert capfd.readouterr().err == "DONE [0, 0, 0, 0] 0.0\n"
    assert content(tmp_path) == before


def test_what_libraries_write_without_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "known").mkdir()
    (tmp_path / "known/model.safetensors").write_text("of another run")
    monkeypatch.chdir(tmp_path)
    outcome = observed(SCRIPTS / "native_files.py")
    told = capfd.readouterr().err
    assert (outcome.exit_code, told.splitlines()[-1]) == (0, "DONE"), told
    assert content(tmp_path) == {"known/model.safetensors": "of another run"}
