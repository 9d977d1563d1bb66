"""A loader that a wrapped model is trained on: whichever of several optimizers takes the steps."""

from __future__ import annotations

import pytest
from engine_support import kinds

SCRIPT = """
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

class Samples(torch.utils.data.Dataset):
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]

def make_optimizer(kind, model, other):
    if kind == "adam":
        return torch.optim.Adam(model.parameters())
    return {}

def train(kind, samples, rank, other):
    model = DistributedDataParallel(nn.Linear(8, 2), device_ids=[rank])
    optimizer = make_optimizer(kind, model, other)
    dataset = Samples(samples)
    sampler = DistributedSampler(dataset)
    loader = DataLoader(dataset, batch_size=64, shuffle=True)
    for epoch in range(9):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

train(*torch.load("settings.pt"))
"""


@pytest.mark.parametrize(
    ("optimizer", "assumed"),
    [
        ("torch.optim.SGD(model.parameters(), lr=0.1)", []),
        ("torch.optim.SGD(other.parameters(), lr=0.1)", ["alternative"]),
    ],
)
def test_training_by_any_of_several_optimizers_is_no_doubt(optimizer: str, assumed: list[str]) -> None:
    assert kinds("DL805", SCRIPT.format(optimizer)) == assumed
