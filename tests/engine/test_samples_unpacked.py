"""A sample has as many parts as its dataset returns: unpacked into another number of names, it ends the run."""

from __future__ import annotations

from pathlib import Path

import pytest
from interpreting import run

from dllint.events import CallRefused

HEAD = """
from torch.utils.data import DataLoader, Dataset

class Images(Dataset):
    def __init__(self, files):
        self.files = files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        {body}

def save(path, model):
    return path

images = Images(find())
"""
PAIRS = "return self.files[index], index"


def goes_on(folder: Path, text: str, body: str = PAIRS) -> bool:
    """Whether the program gets to a call, after some text, that is refused itself."""
    return bool(run(folder, HEAD.format(body=body) + text + "\nsave(1)\n").all_of(CallRefused))


@pytest.mark.parametrize(
    "text",
    [
        "image, label, name = images[0]",
        "for image, label, name in DataLoader(images, batch_size=size):\n    print(image)",
        "for i, (image, label, name) in enumerate(DataLoader(images, 4, collate_fn=None)):\n    print(image)",
        "sample = images[0]\nif len(sample) == 2:\n    image, label, name = sample",
        "sample = (1, 2) if find() else (3, 4)\nif len(sample) == 2:\n    image, label, name = sample",
    ],
)
def test_other_numbers_of_parts(tmp_path: Path, text: str) -> None:
    assert not goes_on(tmp_path, text)


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("image, label = images[0]", PAIRS),
        ("image, *labels = images[0]", PAIRS),
        ("for image, label in DataLoader(images, 4):\n    print(image)", PAIRS),
        ("for image, label, name in DataLoader(images, 4, collate_fn=collate):\n    print(image)", PAIRS),
        ("for image, label, name in DataLoader(images, 4, **options):\n    print(image)", PAIRS),
        ("image, label, name = images[0]", "return (*self.files[index], index)"),
        ("image, label, name = images[0]", "return self.files[index]"),
        ("image, label = images[0]", "if index:\n            return 1, 2, 3\n        return 1, 2"),
        ("try:\n    image, label, name = images[0]\nexcept ValueError:\n    pass", PAIRS),
        ("sample = images[0]\nif len(sample) == 3:\n    image, label, name = sample", PAIRS),
        ("for sample in DataLoader(images, 4):\n    if len(sample) > 2:\n        image, label, name = sample", PAIRS),
        ("sample = (1, 2) if find() else (3, 4)\nif len(sample) == 3:\n    image, label, name = sample", PAIRS),
    ],
)
def test_what_may_be_unpacked(tmp_path: Path, text: str, body: str) -> None:
    assert goes_on(tmp_path, text, body)


MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, x):
        {body}

def save(path, model):
    return path

net = Net()
x = find()
"""


@pytest.mark.parametrize(
    ("text", "body", "expected"),
    [
        ("mean, variance = net(x)", "return x, x, x", False),
        ("mean, (a, b), variance = net(x)", "return x, (x, x)", False),
        ("mean, variance = net(x)", "return x, x", True),
        ("mean, variance = net(x)", "return x", True),
        ("mean, variance = net(x)", "if self.training:\n            return x, x, x\n        return x, x", True),
        ("net.register_forward_hook(hook)\nmean, variance = net(x)", "return x, x, x", True),
    ],
)
def test_what_a_model_returns(tmp_path: Path, text: str, body: str, expected: bool) -> None:
    assert bool(run(tmp_path, MODEL.format(body=body) + text + "\nsave(1)\n").all_of(CallRefused)) is expected
