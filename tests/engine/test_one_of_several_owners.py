"""What is wrong within a method of one of several objects assumes no more than that this one is taken."""

from __future__ import annotations

from engine_support import found

AGENTS = """
import torch
from torch import nn

class First:
    def __init__(self):
        self.net = nn.Linear(4, 2)

    def update(self, x):
        return self.net(x)

class Second:
    def __init__(self):
        self.net = nn.Linear(4, 2)
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def update(self, x):
        self.optimizer.zero_grad()
        self.net(x).sum().backward()
        self.optimizer.step()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)

algorithm = read_name()
if algorithm == "first":
    agent = First()
elif algorithm == "second":
    agent = Second()
else:
    raise ValueError(algorithm)
for x in torch.load("data.pt"):
    agent.update(x)
"""

HEADS = """
import torch.nn.functional as F

class First:
    def __call__(self, x):
        return x.log_softmax(1)

class Second:
    def __call__(self, x):
        return x.softmax(1)

head = First() if read_name() == "first" else Second()
for x, y in read_data():
    F.nll_loss(head(x), y).backward()
"""


def test_code_of_an_agent_is_wrong_whenever_it_is_taken() -> None:
    (finding,) = found("DL212", AGENTS)
    assert [each.kind for each in finding.assumptions] == ["entry"]
    assert finding.confidence == "likely"


def test_what_goes_with_the_option_elsewhere_is_in_doubt() -> None:
    """Which loss there is may go with which head is taken."""
    (finding,) = found("DL104", HEADS)
    assert "alternative" in [each.kind for each in finding.assumptions]
    assert finding.confidence == "possible"
