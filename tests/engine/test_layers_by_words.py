"""What is assumed of a model whose layers could not all be resolved."""

import pytest
from engine_support import found

SCRIPT = """
import torch
from torch import nn
from layers import make_block
from torch.utils.data import DataLoader

class Net(nn.Module):
    def __init__(self, norm=make_block("BatchNorm1d")):
        super().__init__()
        {layer}
        self.block = make_block(8, "BatchNorm1d")
        self.fc = nn.Linear(8, 2)

    def forward(self, x):
        return self.fc(self.block(x))

def main(train_set, test_set):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.train()
    for x, y in DataLoader(train_set, batch_size=8, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    correct = 0
    with torch.no_grad():
        for x, y in DataLoader(test_set, batch_size=8):
            correct += (model(x).argmax(1) == y).sum().item()
    print(correct)

main(torch.load("train.pt"), torch.load("test.pt"))
"""


@pytest.mark.parametrize(("layer", "is_assumed"), [("pass", True), ("self.norm = nn.BatchNorm1d(8)", False)])
def test_words_in_the_code_are_an_assumption(layer: str, is_assumed: bool) -> None:
    (finding,) = found("DL207", SCRIPT.format(layer=layer))
    texts = [each.text for each in finding.assumptions if "words in its code" in each.text]
    assert texts == (["`Net` has layers that depend on the mode, as words in its code say"] if is_assumed else [])
