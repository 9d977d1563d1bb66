"""A class that derives from nothing is no module, whatever its methods are called."""

from __future__ import annotations

import pytest

from dllint.testing import check

NETWORK = """
import torch
from torch import nn
from torch.nn import functional as F


class Network{bases}:
    def __init__(self, is_deep):
        self.layers = nn.Linear(2, 2) if is_deep else nn.Linear(2, 1)
        self.optimizer = torch.optim.Adam(self.layers.parameters())

    def forward(self, images):
        {clear}
        return self.layers(images)

    def backward(self, loss):
        loss.backward()
        self.optimizer.step(){mark}


def train(loader, is_deep):
    network = Network(is_deep)
    for images, labels in loader:
        network.backward(F.cross_entropy(network.forward(images), labels))


train(loader, is_deep=options.is_deep)
"""


@pytest.mark.parametrize("bases", ["", "(object)", "(ABC)"])
def test_its_forward_is_a_method_like_others(bases: str) -> None:
    base = "from abc import ABC\n" if bases == "(ABC)" else ""
    good = base + NETWORK.format(bases=bases, clear="self.optimizer.zero_grad()", mark="")
    check("DL202", good, vary=())
    check("DL202", base + NETWORK.format(bases=bases, clear="pass", mark="  # DL202"), vary=())
