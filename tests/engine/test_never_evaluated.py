"""What a claim about evaluation assumes where a project never evaluates."""

from __future__ import annotations

import pytest
from engine_support import found

NET = """
import torch.nn.functional as F
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x):
        return F.dropout(self.layer(x), 0.5)
"""
TRAIN = """
from main import Net

def main(loader, optimizer, criterion):
    net = Net()
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

if __name__ == "__main__":
    main(*options())
"""


@pytest.mark.parametrize(
    ("files", "is_assumed"),
    [
        ({"train.py": TRAIN, "README.md": ""}, True),
        ({"train.py": TRAIN, "test.py": "from main import Net\n\nNet().eval()\n", "README.md": ""}, False),
        ({"train.py": TRAIN, "fit.py": "import lightning\n", "README.md": ""}, False),
        ({"README.md": ""}, False),
        ({"train.py": TRAIN}, False),
    ],
    ids=["never", "in-a-script", "by-a-framework", "nothing-is-trained", "a-part-of-a-project"],
)
def test_that_somebody_evaluates_is_assumed_where_a_project_only_trains(
    files: dict[str, str], is_assumed: bool
) -> None:
    (finding,) = found("DL216", NET, files)
    assert any("evaluates" in each.text for each in finding.assumptions) is is_assumed
