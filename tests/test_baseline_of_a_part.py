"""A baseline of some files: it keeps what it holds of the others, and takes in what named files are told."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from importing_projects import DEMO, FLAT, NET, dllint, names, write

IMPORTS = "import nn, optim\nfrom torch.utils.data import DataLoader\n"


def known(project: Path) -> set[tuple[str, str, str]]:
    return {tuple(entry) for entry in json.loads((project / ".dllint_baseline.json").read_text())["findings"]}


def entries(project: Path) -> set[tuple[str, str]]:
    kept = json.loads((project / ".dllint_baseline.json").read_text())["findings"]
    return {(path, code) for path, code, _ in kept}


@pytest.mark.slow
def test_a_baseline_of_a_part_keeps_the_rest(tmp_path: Path) -> None:
    shutil.copytree(DEMO, tmp_path, dirs_exist_ok=True)
    project = write(tmp_path, {})
    dllint(project, "baseline")
    whole = entries(project)
    assert ("engine.py", "DL101") in whole
    for name in names(project)[::3]:
        assert "0 added, 0 removed" in dllint(project, "baseline", name).stderr
        assert "0 added, 0 removed" in dllint(project, "baseline", "prune", name).stderr
        assert dllint(project, name).returncode == 0
    assert entries(project) == whole


def test_a_baseline_of_a_part_takes_in_what_that_part_is_told(tmp_path: Path) -> None:
    project = write(tmp_path, FLAT)
    dllint(project, "baseline", "net.py")
    assert entries(project) == {("engine.py", "DL101")}
    assert dllint(project, "net.py").returncode == 0


TWICE = """\
from torch import nn, optim

from net import Net
from other import Net as Other


def train(model, second, loader):
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.SGD([*model.parameters(), *second.parameters()], lr=0.1)
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
    model = second
    for images, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
"""
RUNS = """\
from torch import nn
from torch.utils.data import DataLoader

from engine import train
from net import Net

train({models}, DataLoader([], batch_size=8, shuffle=True))
"""


@pytest.mark.parametrize(
    ("files", "name", "line"),
    [
        ({"main.py": f"{TWICE}\n\ntrain(Other(), Net(), DataLoader([], shuffle=True))\n"}, "net.py", 19),
        ({"main.py": f"{TWICE}\n\ntrain(Other(), Net(), DataLoader([], shuffle=True))\n"}, "other.py", 13),
        (
            {
                "engine.py": TWICE,
                "first.py": RUNS.format(models="Net(), nn.Linear(3, 2)"),
                "second.py": RUNS.format(models="nn.Linear(3, 2), Net()"),
            },
            "second.py",
            19,
        ),
    ],
)
def test_what_is_found_twice_elsewhere_has_the_entry_that_it_has_in_a_run_over_the_project(
    tmp_path: Path, files: dict[str, str], name: str, line: int
) -> None:
    files = {path: text.replace("import nn, optim\n", IMPORTS) for path, text in files.items()}
    project = write(tmp_path, {"net.py": NET, "other.py": NET, **files})
    [place] = files.keys() & {"engine.py", "main.py"}
    dllint(project, "baseline")
    whole = known(project)
    assert len({entry for entry in whole if entry[0] == place}) == 2
    (project / ".dllint_baseline.json").unlink()
    dllint(project, "baseline", name)
    assert known(project) < whole
    left = dllint(project, "--output-format", "concise").stdout
    assert f"{place}:{13 + 19 - line}:" in left and f"{place}:{line}:" not in left
    assert dllint(project, name).returncode == 0
