"""A loop over the outputs of a model, or over the places of a list, meets each of them."""

from __future__ import annotations

import pytest
from engine_support import found

from dllint.testing import check

NETS = """
import torch
from torch import nn
from torch.nn import functional as F


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 4)
        self.first = nn.Linear(4, 2)
        self.second = nn.Linear(4, 2)

    def forward(self, x):
        x = self.body(x)
        return self.first(x), torch.softmax(self.second(x), dim=1)


class Good(Heads):
    def forward(self, x):
        x = self.body(x)
        return self.first(x), self.second(x)


def train(model, images, target, targets):
    {body}
"""

LOOPS = [
    "for output in model(images):\n        F.cross_entropy(output, target).backward(){mark}",
    "outputs = model(images)\n    for output in outputs:\n        F.cross_entropy(output, target).backward(){mark}",
    "for i, output in enumerate(model(images)):\n        F.cross_entropy(output, targets[i]).backward(){mark}",
    "for output, each in zip(model(images), targets):\n        F.cross_entropy(output, target).backward(){mark}",
    "sum(F.cross_entropy(output, target){mark}\n        for output in model(images)).backward()",
    "outputs = [model.first(images), torch.softmax(model.second(images), dim=1)]\n"
    "    for i in range(len(outputs)):\n        F.cross_entropy(outputs[i], target).backward(){mark}",
    "outputs = [model.first(images), torch.softmax(model.second(images), dim=1)]\n"
    "    for i, output in zip(range(len(outputs)), outputs):\n        F.cross_entropy(output, target).backward(){mark}",
    "outputs = [model.first(images), torch.softmax(model.second(images), dim=1)]\n"
    "    for i, output in zip(range(2), outputs):\n        F.cross_entropy(output, target).backward(){mark}",
    "outputs = model(images)\n"
    "    for i in range(len(outputs)):\n        F.cross_entropy(outputs[i], target).backward(){mark}",
    "outputs = model(images)\n    for i in range(2):\n        F.cross_entropy(outputs[i], targets[i]).backward(){mark}",
]


@pytest.mark.parametrize("loop", LOOPS)
def test_each_output_reaches_the_loss(loop: str) -> None:
    call = "\n\ntrain(Heads(), given.images, given.target, given.targets)\n"
    if "zip(model" in loop:
        loop = loop.replace("targets)", "(target, target))")
    bad = NETS.format(body=loop.format(mark="  # DL101")) + call
    check("DL101", bad, vary=())
    assert not any(finding.assumptions for finding in found("DL101", bad))
    good = NETS.format(body=loop.format(mark="").replace("torch.softmax(model.second(images), dim=1)", "images"))
    check("DL101", good + call.replace("Heads", "Good"), vary=())


def test_epochs_are_one_loop_though_their_number_is_known() -> None:
    source = """
    from torch.nn import functional as F


    def train(model, loader, optimizer):
        rates = [0.1, 0.01]
        for epoch in range(2):
            print(rates[epoch])
            for images, target in loader:
                F.cross_entropy(model(images), target).backward()
                optimizer.step()  # DL202
    """
    check("DL202", source, vary=())
