"""What comes out of a loop over layers is what its last turn gives: a softmax for the last layer, or for all but it."""

from __future__ import annotations

import pytest
from engine_support import found

SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader

class Net(nn.Module):
    def __init__(self, sizes, n):
        super().__init__()
        self.n = n
        self.layers = nn.ModuleList([nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])])

    def forward(self, x):
        for {head}:
            x = layer(x)
            if {test}:
                x = {then}
            else:
                x = {otherwise}
        return x

def train(data, sizes, n):
    model = Net(sizes, n)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = nn.CrossEntropyLoss()
    for x, y in DataLoader(data, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()

train(*load())
"""
EACH = "i, layer in enumerate(self.layers)"
COUNTED = "i in range(self.n)"


def is_found(head: str, test: str, *, last_is_softmax: bool) -> bool:
    sides = ("torch.relu(x)", "x.softmax(dim=1)")
    then, otherwise = sides if last_is_softmax else sides[::-1]
    text = SCRIPT.format(head=head, test=test, then=then, otherwise=otherwise)
    text = text.replace("layer(x)", "self.layers[i](x)") if head == COUNTED else text
    return bool([each for each in found("DL101", text) if each.confidence != "possible"])


@pytest.mark.parametrize(
    ("head", "test"),
    [
        (EACH, "i < len(self.layers) - 1"),
        (EACH, "i != len(self.layers) - 1"),
        (EACH, "i + 1 < len(self.layers)"),
        (EACH, "len(self.layers) - 1 > i"),
        (EACH, "i < len(self.layers) - 1 and self.n"),
        (COUNTED, "i < self.n - 1"),
        (COUNTED, "not i == self.n - 1"),
        (EACH, "not (i == len(self.layers) - 1)"),
    ],
)
def test_the_last_turn_decides(head: str, test: str) -> None:
    assert is_found(head, test, last_is_softmax=True)
    assert not is_found(head, test, last_is_softmax=False)


@pytest.mark.parametrize(
    ("head", "test"),
    [
        (EACH, "i < self.n - 1"),  # another number
        (EACH, "i < len(self.layers)"),  # holds in the last turn, too
        (EACH, "i > 0"),
        (EACH, "i == len(self.layers) - 1"),
        (EACH, "self.n and i < len(x)"),
        (COUNTED, "i <= self.n"),
        ("i, layer in enumerate(self.layers, 1)", "i < len(self.layers) - 1"),
    ],
)
def test_what_the_last_turn_does_not_decide_is_left(head: str, test: str) -> None:
    assert not is_found(head, test, last_is_softmax=True)
