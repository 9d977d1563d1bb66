"""What a notebook does with an object of the project is not left out of account where a module makes the object."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dllint.cli.project import find_project, lint
from dllint.config.load import ConfigLoader

LEARNER = """\
import torch
import torch.nn.functional as F

class Learner:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.schedule = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9)

    def fit(self, loader):
        for x, y in loader:
            self.optimizer.zero_grad()
            F.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()
"""
SCRIPT = "import torch\nfrom learner import *\n\nlearner = Learner(torch.nn.Linear(3, 2))\nlearner.fit(make_loader())\n"


@pytest.mark.parametrize(
    ("line", "count"),
    [("learner.schedule.step()", 0), ("made.schedule.step()", 0), ("learner.optimizer.step()", 1), ("", 1)],
)
def test_a_notebook_may_step_the_scheduler(tmp_path: Path, line: str, count: int) -> None:
    loop = "for epoch in range(9):\n    learner.fit(make_loader())\n"
    source = "from learner import *\nlearner = made = Learner(model)\n" + loop + "    " + line
    cell = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
    content = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    files = {"learner.py": LEARNER, "main.py": SCRIPT, "train.ipynb": json.dumps(content)}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    project = find_project([str(tmp_path)], ConfigLoader(isolated=True))
    lint(project, jobs=1, cache=False)
    report = project.parts[0].report
    assert [each.code for each in (*report.findings, *report.questions)].count("DL317") == count
