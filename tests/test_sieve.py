"""What the sieve leaves out changes no finding: in the demo, and in each project below `BENCH_CORPUS`, if it is set."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from dllint.config.settings import Settings
from dllint.engine import Engine
from dllint.findings import Finding
from dllint.interp.source.facts import load_facts
from dllint.interp.source.project import Project
from dllint.registry import load_rules
from dllint.worker import in_deep_thread

DEMO = Path(__file__).resolve().parent.parent / "fixtures" / "demo"


def projects() -> Iterator[Path]:
    yield DEMO
    corpus = os.environ.get("BENCH_CORPUS")
    if corpus:
        yield from sorted(folder for folder in Path(corpus).iterdir() if folder.is_dir())


def findings(root: Path, sieve: bool) -> set[Finding]:
    """All findings in a project, without the traces, which lead through whatever was seen first.

    What was interpreted by itself as well does not matter either.
    """
    rules = [rule for rule in load_rules() if not rule.code.startswith("DL0")]
    codes = frozenset(rule.code for rule in rules)
    engine = Engine(load_facts(), rules, Settings(root=root, enabled=codes, explicit=codes), sieve=sieve)
    project = Project(root)

    def analyse() -> list[Finding]:
        modules = [project.load(file) for file in sorted(root.rglob("*.py"))]
        return [finding for module in modules for finding in engine.analyse(module, project).findings]

    return {replace(finding, trace=(), fixes=(), alone=None) for finding in in_deep_thread(analyse, lambda _: None)}


@pytest.mark.parametrize("root", list(projects()), ids=lambda root: root.name)
def test_sieve_changes_no_finding(root: Path) -> None:
    found = findings(root, sieve=True)
    assert found == findings(root, sieve=False)
    assert found or root != DEMO


PIPELINE = """
import random
import torch

class Questions:
    def __init__(self, path):
        self.path = path
        self.meta = {}
        self.words = ["<pad>", "<unk>"]
        self.ids = {}
        self.size = 0
        self.depth = 3
        self.rest = []
        self.build()

    def build(self):
        self.meta["path"] = self.path
        self.ids["<pad>"] = 0
        self.ids["<unk>"] = 1
        self.size = 2
        self.depth = 4
        self.rest.append(self.size)
        self.rest.append(self.depth)
        self.read()

    def read(self):
        lines = list(open(self.path))
        random.shuffle(lines)
        self.lines = lines
        return lines

torch.manual_seed(0)
data = Questions("train.txt")
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in data.lines:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x), y).backward()
    optimizer.step()
"""


def test_methods_are_followed_to_what_they_lead_to(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PIPELINE)
    rules = [rule for rule in load_rules() if rule.code == "DL844"]
    alone = Engine(load_facts(), rules, Settings(root=tmp_path, enabled=frozenset(["DL844"])))
    project = Project(tmp_path)
    found = in_deep_thread(lambda: alone.analyse(project.load(tmp_path / "train.py"), project).findings, lambda _: None)
    assert [(finding.code, finding.location.line) for finding in found] == [("DL844", 28)]
