"""What is wrong and changes nothing in this program is a question, a note, or silent."""

from __future__ import annotations

import pytest
from engine_support import found

PROJECT = {"README.md": ""}


def told(code: str, source: str, files: dict[str, str] | None = None) -> list[tuple[str, str]]:
    """The severity and the tier of each finding of a rule; `certain` is a rule's record, and counts as `likely`."""
    findings = found(code, source, {**PROJECT, **(files or {})})
    return [(each.severity, "likely" if each.confidence == "certain" else each.confidence) for each in findings]


def tiers(code: str, source: str, files: dict[str, str] | None = None) -> list[str]:
    """How sure each finding of a rule is."""
    return [tier for _, tier in told(code, source, files)]


RATES = """
import torch
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)
for epoch in range(epochs):
    train(model, loader, optimizer)
    scheduler.step()
    {use}
"""


@pytest.mark.parametrize(
    ("use", "severity"),
    [
        ("print(scheduler.get_lr()[0])", "info"),
        ("writer.add_scalar('lr', scheduler.get_lr()[0], epoch)", "info"),
        ("rate = scheduler.get_lr()[0]", "info"),
        ("print(' | '.join('{}'.format(x) for x in scheduler.get_lr()))", "info"),
        ("if scheduler.get_lr()[0] < 1e-6: break", "warning"),
        ("set_momentum(optimizer, 1 - scheduler.get_lr()[0])", "warning"),
        ("optimizer.param_groups[0]['lr'] = scheduler.get_lr()[0]", "warning"),
    ],
)
def test_a_rate_that_is_only_logged_is_a_note(use: str, severity: str) -> None:
    assert [each for each, _ in told("DL313", RATES.format(use=use))] == [severity]


LAYER = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, wide):
        super().__init__()
        self.wide = wide
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        {test}
            x = nn.Linear(4, 4)(x)
            x = nn.Conv1d(4, 4, 1)(x)
        return self.fc(x)

model = Net({wide})
loss = nn.functional.cross_entropy(model(torch.load("x.pt")), torch.load("y.pt"))
loss.backward()
"""


@pytest.mark.parametrize(
    ("test", "wide", "expected"),
    [
        ("if x.shape[1] != 4:", "True", "possible"),
        ("if self.wide:", "load()", "possible"),
        ("for _ in range(1):", "True", "likely"),
    ],
)
def test_a_layer_that_an_open_branch_of_forward_makes(test: str, wide: str, expected: str) -> None:
    assert set(tiers("DL222", LAYER.format(test=test, wide=wide))) == {expected}


CLEARED = """
import torch

def train(model, loader, optimizer, criterion):
    for task in loader:
        optimizer.zero_grad
        for x, y in task:
            {clear}
            criterion(model(x), y).backward()
            optimizer.step()
"""


@pytest.mark.parametrize(
    ("clear", "expected"),
    [
        ("optimizer.zero_grad()", ["possible"]),
        ("if task: optimizer.zero_grad()", ["likely"]),
        ("other.zero_grad()", ["likely"]),
    ],
)
def test_gradients_that_another_call_clears(clear: str, expected: list[str]) -> None:
    assert tiers("DL825", CLEARED.format(clear=clear)) == expected


@pytest.mark.parametrize(
    ("call", "use", "expected"),
    [
        ("set_index(['run'])", "table.to_csv('a.csv', index=False)", ["possible"]),
        ("reset_index(drop=True)", "return table", ["possible"]),
        ("sort_values('time')", "return table", ["possible"]),
        ("sort_values('time')", "return table.iloc[:100]", ["likely"]),
        ("dropna()", "return table", ["likely"]),
    ],
)
def test_rows_that_nothing_goes_by(call: str, use: str, expected: list[str]) -> None:
    source = f"import pandas as pd\n\ndef load(path):\n    table = pd.read_csv(path)\n    table.{call}\n    {use}\n"
    assert tiers("DL825", source) == expected


STEPPED = """
import numpy as np
import torch
import lightning as L
from torch.optim.lr_scheduler import CosineAnnealingLR

class Module(L.LightningModule):
    def __init__(self, config, samples):
        super().__init__()
        self.net = torch.nn.Linear(4, 4)
        self.T_max = {length}

    def training_step(self, batch, index):
        self.lr_schedulers().step()
        return self.net(batch).sum()

    def configure_optimizers(self):
        optimizer = torch.optim.Adam(self.parameters())
        return {{"optimizer": optimizer, "lr_scheduler": {scheduler}}}
"""


@pytest.mark.parametrize(
    ("length", "scheduler", "count"),
    [
        ("config.epochs * (np.ceil(samples / config.batch) + 1)", "CosineAnnealingLR(optimizer, self.T_max)", 0),
        ("config.epochs * len(config.loader)", "CosineAnnealingLR(optimizer, T_max=self.T_max)", 0),
        ("config.epochs", "CosineAnnealingLR(optimizer, self.T_max)", 1),
        (
            "config.epochs * len(config.loader)",
            "{'scheduler': CosineAnnealingLR(optimizer, self.T_max), 'interval': 'step'}",
            1,
        ),
    ],
)
def test_one_step_more_in_each_epoch_of_a_schedule_that_counts_batches(length: str, scheduler: str, count: int) -> None:
    assert len(tiers("DL305", STEPPED.format(length=length, scheduler=scheduler))) == count


WATCHED = """
import lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint

class Module(L.LightningModule):
    def validation_step(self, batch, index):
        self.log("val/loss", self.net(batch).sum())

def fit(module, data):
    best = ModelCheckpoint(monitor="train/loss")
    L.Trainer(callbacks=[{callback}]).fit(module, data, load("held out"))

fit(Module(), load("seen"))
"""


@pytest.mark.parametrize(("callback", "count"), [("best", 1), ("ModelCheckpoint()", 0)])
def test_a_callback_that_no_trainer_gets(callback: str, count: int) -> None:
    assert len(tiers("DL875", WATCHED.format(callback=callback))) == count


TABLE = """
from torch.utils.data import DataLoader
from torchvision import datasets, transforms as T

RECIPES = {{
    "plain": T.Compose([T.ToTensor()]),
    "erased": T.Compose([T.RandomErasing(), T.ToTensor()]),
}}
train = datasets.ImageFolder("train", transform=RECIPES[{key}])
fit(DataLoader(train))
"""


@pytest.mark.parametrize(
    ("key", "files", "expected"),
    [
        ("'plain'", {}, ["possible"]),
        ("'erased'", {}, ["likely"]),
        ("load()", {}, ["likely"]),
        ("'plain'", {"other.py": "from main import RECIPES\nfit(RECIPES['erased'])\n"}, ["likely"]),
    ],
)
def test_an_entry_that_nothing_asks_for(key: str, files: dict[str, str], expected: list[str]) -> None:
    assert tiers("DL502", TABLE.format(key=key), files) == expected


DRAWN = """
import random
import string
import torch
torch.manual_seed(0)
chosen = random.choices({drawn}, k=10)
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in load(chosen):
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("drawn", "count"), [("string.ascii_letters + string.digits", 0), ("samples.names", 1)])
def test_letters_of_a_name_decide_nothing(drawn: str, count: int) -> None:
    assert len(tiers("DL844", DRAWN.format(drawn=drawn))) == count


RESUMED = """
import argparse
import os
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--resume", help="{help}")
args = parser.parse_args()
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.Adam(model.parameters())
if args.resume:
    model.load_state_dict(torch.load(args.resume))
for epoch in range(10):
    for x in load():
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    torch.save(model.state_dict(), os.path.join("out", "last.pt"))
"""


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("a checkpoint to go on from", ["likely"]),
        ("only weights: training goes on with a 'cold' optimizer", ["possible"]),
        ("optimizer state is not restored", ["possible"]),
        ("where the optimizer of the last run is", ["likely"]),
    ],
)
def test_a_warm_start_that_a_text_tells_of(said: str, expected: list[str]) -> None:
    assert tiers("DL701", RESUMED.format(help=said)) == expected


CONTINUED = """
import torch
kept = torch.load("last.pt")
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr={rate}, momentum=0.9)
scheduler = torch.optim.lr_scheduler.{scheduler}
model.load_state_dict(kept["model"])
optimizer.load_state_dict(kept["optimizer"])
for epoch in range(kept["epoch"], 100):
    for x in load():
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    scheduler.step()
    torch.save({{"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}}, "last.pt")
"""


@pytest.mark.parametrize(
    ("rate", "scheduler", "count"),
    [
        ("kept['rate']", "LambdaLR(optimizer, lambda step: 0.1**step)", 0),
        ("0.1", "LambdaLR(optimizer, lambda step: 0.1**step)", 1),
        ("kept['rate']", "CosineAnnealingLR(optimizer, 100)", 1),
    ],
)
def test_a_schedule_that_goes_on_from_the_rate_in_the_checkpoint(rate: str, scheduler: str, count: int) -> None:
    assert len(tiers("DL713", CONTINUED.format(rate=rate, scheduler=scheduler))) == count


@pytest.mark.parametrize(
    ("option", "count"),
    [
        ("'--talk', action='store_true', help='Talk (default if no question is given)'", 0),
        ("'--talk', action='store_true', help='Talk (default: off)'", 1),
        ("'--talk', type=bool, help='On if you give any value'", 0),
    ],
)
def test_options_that_say_what_happens(option: str, count: int) -> None:
    read = "" if "store_true" in option else "fit(args.talk)"
    source = f"""
import argparse
import torch
parser = argparse.ArgumentParser()
parser.add_argument({option})
args = parser.parse_args()
torch.ones(3).sum()
{read}
"""
    assert len(tiers("DL841 DL846", source)) == count
