"""A model that an imported file makes is in the mode that this file leaves it in."""

import pytest
from engine_support import found

NETS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))

    def forward(self, x):
        return self.layers(x)

{made}

def evaluate(x):
    model.load_state_dict(torch.load("model.pt"))
    with torch.no_grad():
        return model(x)
"""
MAIN = """
import sys
import numpy as np
import torch
from nets import evaluate

def main(names):
    for name in names:
        print(evaluate(torch.from_numpy(np.load(name))))

if __name__ == "__main__":
    main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("made", "is_training"),
    [
        ("model = Net()", True),
        ("model = Net()\nmodel.eval()\nmodel.train()", True),
        ("model = Net()\nmodel.eval()", False),
        ("model = Net().eval()", False),
        ("model = Net().to('cpu')\nmodel.train(False)", False),
        ("model = Net()\nmodel.train(torch.cuda.is_available())", False),
        ("def made():\n    model = Net()\n    return model.eval()\n\nmodel = made()", False),
    ],
)
def test_modes_of_imported_files_are_those_of_their_models(made: str, is_training: bool) -> None:
    assert bool(found("DL207", MAIN, {"nets.py": NETS.format(made=made)})) == is_training
