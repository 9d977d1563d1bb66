"""What is assumed of a model whose layers could not all be resolved."""

import pytest
from engine_support import found, kinds

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
        {use}
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


@pytest.mark.parametrize(
    ("layer", "use", "is_assumed"),
    [("pass", "pass", True), ("self.norm = nn.BatchNorm1d(8)", "x = self.norm(x)", False)],
)
def test_words_in_the_code_are_an_assumption(layer: str, use: str, is_assumed: bool) -> None:
    (finding,) = found("DL207", SCRIPT.format(layer=layer, use=use))
    texts = [each.text for each in finding.assumptions if "words in its code" in each.text]
    assert texts == (["`Net` has layers that depend on the mode, as words in its code say"] if is_assumed else [])


HIDDEN = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, width, rate=0.0):
        super().__init__()
        self.layers = nn.Sequential(*torch.load("layers.pt"))
        {layer}

    def forward(self, x):
        {forward}
        return self.layers(x)
"""


@pytest.mark.parametrize(
    ("layer", "forward", "kind"),
    [
        ("self.extra = make_block(nn.BatchNorm1d(width), 4)", "pass", "name"),
        ("self.extra = make_block(nn.Dropout(0.1), 4)", "pass", "name"),
        ("self.extra = make_block(nn.Dropout(0.0), 4)", "pass", "effect"),
        ("self.extra = make_block(nn.Dropout(rate), 4)", "pass", "effect"),
        ("self.extra = make_block(nn.BatchNorm1d(width, track_running_stats=False), 4)", "pass", "effect"),
        ("self.extra = make_block(nn.BatchNorm1d(width) if width > 3 else None, 4)", "pass", "effect"),
        ("self.extra = make_block('BatchNorm1d', 4)", "pass", "effect"),
        ("pass", "x = nn.functional.dropout(x, 0.5)", "effect"),
        ("pass", "x = nn.Dropout(0.5)(x)", "effect"),
    ],
)
def test_words_name_a_layer_that_is_built_or_leave_a_question(layer: str, forward: str, kind: str) -> None:
    blocks = HIDDEN.format(layer=layer, forward=forward) + "\nfrom elsewhere import make_block\n"
    script = SCRIPT.replace("from layers import make_block", "from blocks import Block")
    script = script.replace('norm=make_block("BatchNorm1d")', "norm=None").replace(
        'make_block(8, "BatchNorm1d")', "Block(8)"
    )
    assert kinds("DL207", script.format(layer="pass", use="pass"), {"blocks.py": blocks})[-1:] == [kind]
