"""A dataset that fails as soon as a sample is asked for keeps a script from training, and from what comes of that."""

from __future__ import annotations

from pathlib import Path

import pytest
from interpreting import run

from dllint.sites import Site

SCRIPT = """
import argparse
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--decay", type=float, default=0.1)
args = parser.parse_args()


class Images(Dataset):
    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        image = self.images[index]
        {read}
        return image


def main():
    data = Images(np.load("images.npy"))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    for epoch in range(4):
        for step, x in enumerate(loader):
            optimizer.zero_grad()
            model(x).mean().backward()
            optimizer.step()
    torch.save(model.state_dict(), "model.pt")


main()
"""
MANY = "    def __getitems__(self, indices):\n        return indices\n"
FAILS = "label = (label - 0.5) * 2"


def assumed(folder: Path, script: str, read: str) -> list[str]:
    """What a claim about the first option assumes."""
    (folder / "README.md").write_text("# Models\n")
    context = run(folder, script.replace("{read}", read)).context
    module = context.program.module
    return [each.text for each in context.runs(Site(module, module.tree.body[6]), None)]


def test_a_dataset_that_fails(tmp_path: Path) -> None:
    line = 1 + SCRIPT[: SCRIPT.index("{read}")].count("\n")
    told = f"line {line} of `main.py` is mended, where the dataset fails whatever it is given"
    assert assumed(tmp_path, SCRIPT, FAILS) == [told]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("DataLoader(data,", "DataLoader(Subset(data, range(8)),"),
        ("enumerate(loader)", "zip(range(8), loader)"),
    ],
)
def test_batches_of_it_that_are_wrapped(tmp_path: Path, old: str, new: str) -> None:
    assert assumed(tmp_path, SCRIPT.replace(old, new), FAILS)


@pytest.mark.parametrize(
    ("old", "new", "read"),
    [
        ("{read}", "{read}", "label = (image - 0.5) * 2"),
        ("{read}", "{read}", "if index % 2:\n            label = (label - 0.5) * 2"),
        ("{read}", "{read}", "try:\n            label += 1\n        except UnboundLocalError:\n            pass"),
        (
            "class Images(Dataset):",
            "class Images(Dataset):\n    def __getitems__(self, all):\n        return all\n",
            FAILS,
        ),
        ("DataLoader(data,", "DataLoader(data.images,", FAILS),
        ("enumerate(loader)", "enumerate(data.images)", FAILS),
        ("    for epoch", "    if args.lr > 1:\n        return\n    for epoch", FAILS),
        ("    for epoch", "    for x in range(8):\n        optimizer.step()\n    for epoch", FAILS),
    ],
)
def test_it_may_train(tmp_path: Path, old: str, new: str, read: str) -> None:
    assert not assumed(tmp_path, SCRIPT.replace(old, new), read)
