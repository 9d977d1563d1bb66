"""What a parameter has by default is no more than a question where each call of the project gives it something else."""

from __future__ import annotations

import pytest
from engine_support import kinds

NET = """
import pytorch_lightning as pl
import torch
from torch import nn


class Net(pl.LightningModule):
    def __init__(self, rate=0.01, decay=0.01):
        super().__init__()
        self.rate = rate
        self.decay = decay
        self.layer = nn.Linear(8, 2)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.rate, weight_decay=self.decay)
"""
USE = """
from main import Net


def build(config):
    {}
"""


@pytest.mark.parametrize("calls", ["return Net(0.1, config.decay)", "return Net(decay=config.decay)"])
def test_a_default_that_no_call_leaves(calls: str) -> None:
    assert kinds("DL301", NET, {"build.py": USE.format(calls)}) == ["effect"]


@pytest.mark.parametrize(
    "calls",
    [
        "return Net(0.1)",
        "return Net(decay=0.01)",
        "return Net(**config)",
        "return Net(decay=config.decay) if config.decay else Net()",
        "return config.make(Net, decay=config.decay)",
    ],
)
def test_a_default_that_some_call_may_leave(calls: str) -> None:
    assert kinds("DL301", NET, {"build.py": USE.format(calls)}) == ["default"]
