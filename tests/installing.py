"""Copies of this checkout, repositories made of them, and fresh environments to install them in."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SHIPPED = ("dllint", "rules", "README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml", ".pre-commit-hooks.yaml")

MODEL = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10), nn.Softmax(dim=1))

    def forward(self, x):
        return self.layers(x)
"""
TRAINING = """\
from model import Net
from torch import nn, optim

model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
criterion = nn.CrossEntropyLoss()


def train(loader):
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
"""
FINDING = "train.py:12:16: error[DL101]"
"""What dllint says, as ``concise``, of a file ``train.py`` with TRAINING beside a ``model.py`` with MODEL."""

ENVIRONMENT = {
    name: value
    for name, value in os.environ.items()
    if not name.startswith(("PYTHON", "VIRTUAL_ENV", "GIT_", "PRE_COMMIT")) and name not in ("FORCE_COLOR", "NO_COLOR")
}


def run(*command: str | Path, cwd: Path, expect: int | None = 0, path: Sequence[Path] = ()) -> str:
    """Run a program, away from the environment the tests run in.

    Args:
        command: the program and its arguments.
        cwd: the folder to run it in.
        expect: the exit code it must have; any if ``None``.
        path: what stands before everything else on ``PATH``.

    Returns:
        Its standard output and standard error.
    """
    places = [*map(str, path), ENVIRONMENT["PATH"]]
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**ENVIRONMENT, "PATH": os.pathsep.join(places)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert expect is None or done.returncode == expect, f"{command} exited with {done.returncode}:\n{done.stdout}"
    return done.stdout


def copy_checkout(folder: Path) -> Path:
    """Copy what is shipped of this checkout, as it stands, into a new folder."""
    folder.mkdir()
    for name in SHIPPED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder)
    return folder


def make_repository(folder: Path) -> str:
    """Commit everything in a folder to a new repository. Returns the revision."""
    git = ("git", "-c", "user.name=Test", "-c", "user.email=test@example.com")
    run(*git, "init", "--quiet", cwd=folder)
    run(*git, "add", "--all", cwd=folder)
    run(*git, "commit", "--quiet", "--message=all", cwd=folder)
    return run("git", "rev-parse", "HEAD", cwd=folder).strip()


def write_project(folder: Path) -> Path:
    """Write a project with one planted bug into a new folder."""
    folder.mkdir()
    (folder / "model.py").write_text(MODEL)
    (folder / "train.py").write_text(TRAINING)
    return folder


class Environment:
    """A fresh virtual environment.

    Args:
        folder: where it is made.
    """

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=True)
        self.bin = folder / ("Scripts" if sys.platform == "win32" else "bin")
        self.site_packages = next(folder.glob("[Ll]ib/**/site-packages"))
        self._folder = folder

    def install(self, *what: str | Path) -> None:
        """Run ``pip install``."""
        run(self.bin / "python", "-m", "pip", "install", "--quiet", *what, cwd=self._folder)

    def dllint(self, *arguments: str, cwd: Path, expect: int = 0) -> str:
        """Run the installed command."""
        return run(self.bin / "dllint", *arguments, cwd=cwd, expect=expect)
