"""What does not touch an object is no doubt about it: predicates, numbers, and calls where another one is meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from engine_support import found

from dllint.cli.project import find_project, lint
from dllint.config.load import ConfigLoader
from dllint.findings import Finding
from dllint.tiers import confidence_of

MODEL = """\
import argparse
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, DistributedSampler

from elsewhere import {helper}

parser = argparse.ArgumentParser()
parser.add_argument("--masks", action="store_true")
args = parser.parse_args()
loader = DataLoader([1, 2], batch_size=4)
model = nn.Linear(3, 2)
"""
CLIPPED_SCALED = """\
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler()
for x, y in loader:
    optimizer.zero_grad()
    scaler.scale(F.cross_entropy(model(x), y)).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""


def confidences(findings: list[Finding]) -> list[str]:
    return [confidence_of(finding.assumptions) for finding in findings]


@pytest.mark.parametrize(
    ("helper", "confidence"), [("is_parallel", "certain"), ("has_heads", "certain"), ("isolate", "possible")]
)
def test_a_predicate_leaves_what_it_asks_about_as_it_is(helper: str, confidence: str) -> None:
    program = MODEL.format(helper=helper) + f"print({helper}(model))\n" + CLIPPED_SCALED
    assert confidences(found("DL213", program)) == [confidence]


WRAPPED = "if {test}:\n    model = WithMasks(model)\n"


def test_a_call_does_not_touch_what_is_used_where_it_is_not_made() -> None:
    start = MODEL.format(helper="WithMasks")
    [finding] = found("DL213", start + WRAPPED.format(test="args.masks") + CLIPPED_SCALED)
    assert [each.text for each in finding.assumptions if each.kind == "opaque"] == []
    [finding] = found("DL213", start + "WithMasks(model)\n" + CLIPPED_SCALED)
    assert [each.kind for each in finding.assumptions] == ["opaque"]


SAMPLED = """\
sampler = DistributedSampler([1, 2])
loader = DataLoader([1, 2], batch_size=4, sampler=sampler)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
start = 0
if args.masks:
    start = torch.load(WithMasks)["epoch"]
for epoch in range(start, 90):
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
"""


def test_which_numbers_a_loop_goes_over_is_no_assumption() -> None:
    assert confidences(found("DL414", MODEL.format(helper="WithMasks") + SAMPLED)) == ["certain"]


BUILT = """\
import torch
from torch import nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.body = nn.Linear(8, 8)
        self.head = nn.Linear(8, config)

    @classmethod
    def pretrained(cls):
        return cls(3)

    def make_optimizer(self):
        return torch.optim.AdamW(self.parameters())


if start == "scratch":
    model = Net(2)
elif start == "resume":
    model = Net(4)
{else_}
optimizer = model.make_optimizer()
model.head = nn.Linear(8, 5)
for x, y in loader:
    optimizer.zero_grad()
    F.cross_entropy(model.body(x), y).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("otherwise", "confidence"), [("model = Net.pretrained()", "certain"), ("model = unknown()", "possible")]
)
def test_an_optimizer_that_each_of_several_models_makes_is_no_assumption(otherwise: str, confidence: str) -> None:
    program = BUILT.replace("{else_}", f"else:\n    {otherwise}")
    assert confidences(found("DL306", program)) == [confidence]


SEEDED = """\
import os
import random
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.rand(3) * random.random(), 1


def init(worker):
    random.seed(3)


model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers={workers}, worker_init_fn=init)
for x, y in loader:
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        ("4", ["certain"]),
        ("os.cpu_count()", ["certain"]),
        ("min(8, os.cpu_count())", ["certain"]),
        ("max(settings.workers, 1)", ["certain"]),
        ("0", []),
        ("min(os.cpu_count(), settings.workers)", ["possible"]),
        ("settings.workers", ["possible"]),
        ("4 if torch.cuda.is_available() else 0", ["possible"]),
    ],
)
def test_a_loader_must_be_known_to_have_workers(workers: str, expected: list[str]) -> None:
    assert confidences(found("DL402", SEEDED.format(workers=workers))) == expected


CELLS = (
    "import torch\nfrom torch import nn\nimport torch.nn.functional as F\nmodel, x, y = make()\n",
    "p = F.softmax(model(x), dim=1)\n{last}",
    "print(y)\n",
)


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ("F.cross_entropy(p, y)", []),
        ("F.cross_entropy(p, y)\n# what it is at first\n", []),
        ("F.cross_entropy(p, y)\nx = 3", ["effect"]),
        ("if y:\n    F.cross_entropy(p, y)", ["effect"]),
    ],
)
def test_the_last_expression_of_a_cell_is_shown(tmp_path: Path, last: str, expected: list[str]) -> None:
    cells = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": 1, "source": text.format(last=last)}
        for text in CELLS
    ]
    (tmp_path / "book.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))
    project = find_project([str(tmp_path)], ConfigLoader(isolated=True))
    lint(project, jobs=1, cache=False)
    report = project.parts[0].report
    [finding] = [each for each in (*report.findings, *report.questions) if each.code == "DL101"]
    assert [each.kind for each in finding.assumptions if each.text == "somebody reads the loss"] == expected


NET_OF_LIGHTNING = """\
import pytorch_lightning as pl
import torch
from torch import nn
import torch.nn.functional as F


class Net(pl.LightningModule):
    def __init__(self, width):
        super().__init__()
        self.{call}()
        self.output = nn.Linear(width, 5)

    def forward(self, x):
        return F.softmax(self.output(x), dim=-1)

    def training_step(self, batch, batch_idx):
        x, y = batch
        return F.cross_entropy(self(x), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


pl.Trainer().fit(Net(100))
"""


@pytest.mark.parametrize(
    ("call", "kinds"), [("save_hyperparameters", []), ("load_hyperparameters", ["opaque"]), ("save_up", ["opaque"])]
)
def test_what_notes_arguments_leaves_the_model_as_it_is(call: str, kinds: list[str]) -> None:
    [finding] = found("DL101", NET_OF_LIGHTNING.format(call=call))
    assert [each.kind for each in finding.assumptions] == kinds
