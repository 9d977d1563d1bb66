"""A call that gives a keyword twice: `ast` parses it, and no Python compiles the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from dllint.cli.project import find_project, lint
from dllint.config.load import ConfigLoader
from dllint.findings import Finding

SCRIPT = """
from tools import show

def main(values):
    show(values)
    print(dict(size=1, width=2, {more}))

if __name__ == "__main__":
    main([1])
"""
TOOLS = """
import torch

def labels(names):
    return names

def show(values):
    return torch.nn.functional.cross_entropy(values, labels())
"""


def found(folder: Path, more: str, other: str = "") -> list[Finding]:
    """What is found in a project of a script, what it imports, and another file."""
    (folder / "dllint.toml").write_text('select = ["DL843"]\nconfidence = "possible"\n')
    for name, text in {"train.py": SCRIPT.format(more=more), "tools.py": TOOLS, "other.py": other}.items():
        (folder / name).write_text(text)
    project = find_project([str(folder)], ConfigLoader())
    lint(project, jobs=1, cache=False)
    return [finding for part in project.parts for finding in part.report.findings]


@pytest.mark.parametrize(
    ("more", "other", "mended"),
    [
        ("size=3", "", True),
        ("depth=3", "", False),
        ("**a, **b", "", False),
        ("size=3", "from tools import show\nshow([1])\n", False),
    ],
)
def test_what_the_file_alone_imports_is_not_used(tmp_path: Path, more: str, other: str, mended: bool) -> None:
    [finding] = [each for each in found(tmp_path, more, other) if each.code == "DL843"]
    assert any("is mended" in each.text for each in finding.assumptions) is mended


def test_it_is_reported(tmp_path: Path) -> None:
    [finding] = [each for each in found(tmp_path, "size=3") if each.code == "DL001"]
    assert finding.message == "keyword argument repeated: size"
