"""Objects that are reached in a roundabout way: by ``__call__``, by a method that keeps them, by a key, in a loop."""

from __future__ import annotations

import pytest

from dllint.testing import check

NET = """
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def add_optimizer(self, optimizer):
        self.optimizer = optimizer

    def add_loss_op(self, loss_op):
        self.loss_op = loss_op

    def forward(self, x):
        return torch.softmax(self.layer(x), dim=1)

    def run_epoch(self, loader):
        for images, target in loader:
            self.optimizer.zero_grad()
            loss = self.loss_op({call}, target)  # DL104
            loss.backward()
            self.optimizer.step()
"""
MAIN = """
from nets import *

if __name__ == "__main__":
    model = Net()
    model.add_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    model.add_loss_op(nn.NLLLoss())
    for epoch in range(10):
        model.run_epoch(given.loader)
"""


@pytest.mark.parametrize("call", ["self.__call__(images)", "super().__call__(images)", "self(images)"])
def test_a_model_is_called_whatever_the_spelling(call: str) -> None:
    check("DL104", MAIN, files={"nets.py": NET.format(call=call)}, vary=())


def test_a_loss_that_is_called_by_its_method() -> None:
    source = """
    import torch
    from torch import nn

    criterion = nn.CrossEntropyLoss()
    loss = criterion.__call__(torch.softmax(given.logits, dim=1), given.target)  # DL101
    """
    check("DL101", source, vary=())


def test_a_call_of_its_own_is_what_runs() -> None:
    source = """
    import torch
    from torch import nn
    from torch.nn import functional as F


    class Net(nn.Module):
        def forward(self, x):
            return torch.softmax(x, dim=1)

        def __call__(self, x):
            return torch.log(super().__call__(x))


    F.nll_loss(Net()(given.images), given.target)
    """
    check("DL104", source, vary=())


LOOP = """
from torch.nn import functional as F


def train({parameters}, loader):
    for images, target in loader:
        {clear}
        F.cross_entropy({model}(images), target).backward()
        {step}
"""


@pytest.mark.parametrize(
    ("parameters", "model", "step", "clear"),
    [
        ("state", 'state["model"]', 'state["optimizer"].step()', 'state["optimizer"].zero_grad()'),
        ("first, second, net", "net", "for opt in [first, second]:\n            opt.step()", "first.zero_grad()"),
        ("net, o1, o2", "net", "for optimizer in (o1, o2):\n            optimizer.step()", "net.zero_grad()"),
    ],
)
def test_what_a_key_or_a_loop_calls_an_optimizer_is_one(parameters: str, model: str, step: str, clear: str) -> None:
    bug = LOOP.format(parameters=parameters, model=model, step=f"{step}  # DL202", clear="pass")
    check("DL202", bug, vary=())
    if "first" not in clear:
        check("DL202", LOOP.format(parameters=parameters, model=model, step=step, clear=clear), vary=())
