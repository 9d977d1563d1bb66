"""Evaluation without ``eval()`` is seen by its names alone, also where nothing switches gradients off."""

from __future__ import annotations

import pytest
from engine_support import found

from dllint.testing import check

NET = """
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.dropout = nn.Dropout()

    def forward(self, x):
        return self.dropout(self.layer(x))


model = Net()
"""
TRAINED = """
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for images, target in train_loader:
    optimizer.zero_grad()
    F.cross_entropy(model(images), target).backward()
    optimizer.step()
"""
LOADED = """
model.load_state_dict(torch.load("best.pt"))
"""
LOOP = """
{switch}
for images, target in test_loader:
    right = (model(images).argmax(1) == target).sum(){mark}
"""
FUNCTION = """
def inference(model, images):
    return model(images).argmax(1){mark}


{switch}
print(inference(model, given.images))
"""


@pytest.mark.parametrize("before", [TRAINED, LOADED])
@pytest.mark.parametrize("use", [LOOP, FUNCTION])
def test_evaluation_is_known_by_names(before: str, use: str) -> None:
    check("DL207", NET + before + use.format(switch="", mark="  # DL207"), vary=())
    check("DL207", NET + before + use.format(switch="model.eval()", mark=""), vary=())


@pytest.mark.parametrize("name", ["testing.py", "test.py", "evaluate.py"])
@pytest.mark.parametrize(("before", "count"), [(LOADED, 1), (LOADED + TRAINED, 0), (TRAINED, 0)])
def test_the_name_of_a_file_that_trains_tells_nothing(name: str, before: str, count: int) -> None:
    call = "print(model(images))\n"
    setting = "images, train_loader = torch.rand(4, 4), torch.load('train.pt')\n"
    assert len(found("DL207", "", {name: NET + setting + before + call})) == count
