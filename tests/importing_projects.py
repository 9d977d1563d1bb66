"""Small projects whose files import each other, and dllint run on some of their files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from installing import MODEL

from dllint.files.discovery import find_files

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / "fixtures" / "demo"

NET = MODEL
ENGINE = """\
def train(model, criterion, optimizer, loader):
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()


def evaluate(model, loader):
    hits = 0
    for images, labels in loader:
        hits += (model(images).argmax(dim=1) == labels).sum().item()
    return hits
"""
MAIN = """\
from torch import nn, optim
from torch.utils.data import DataLoader

{imports}

model = Net()
optimizer = optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader([], batch_size=8, shuffle=True)
{call}(model, nn.CrossEntropyLoss(), optimizer, loader)
"""

FLAT = {
    "net.py": NET,
    "engine.py": ENGINE,
    "main.py": MAIN.format(imports="import engine\nfrom net import Net", call="engine.train"),
    "other.py": "from engine import (\n    evaluate,  # to look at\n)\nprint(evaluate)\n",
}


def write(folder: Path, files: dict[str, str]) -> Path:
    """Write the files of a project into a folder, and a configuration without anything in it."""
    (folder / "pyproject.toml").write_text("[tool.dllint]\n")
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def names(project: Path) -> list[str]:
    """The files that are linted, by their paths in the project."""
    return [file.relative_to(project).as_posix() for file in find_files([project], exclude=(), root=project).files]


def dllint(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a process of its own, in the folder of a project."""
    command = [sys.executable, "-m", "dllint", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
