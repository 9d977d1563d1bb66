"""What stops the run in the forward of a model is met where the model is called."""

from __future__ import annotations

import pytest

from dllint.testing import check

SCRIPT = """
import sys

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 2)

    def forward(self, x):
        x = self.body(x)
        {stop}
        return x


def train(loader):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


train(given.loader)
"""


@pytest.mark.parametrize("stop", ["breakpoint()", "sys.exit()", "import pdb; pdb.set_trace()"])
def test_a_stop_in_a_forward(stop: str) -> None:
    check("DL845", SCRIPT.replace("{stop}", f"{stop}  # DL845"), vary=())


@pytest.mark.parametrize("stop", ["breakpoint()", "sys.exit()"])
def test_a_stop_under_a_condition(stop: str) -> None:
    check("DL845", SCRIPT.replace("{stop}", f"if x.isnan().any():\n            {stop}"), vary=())
