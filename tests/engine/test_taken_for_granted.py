"""Behind an ``assert`` a variable is what it says."""

import pytest
from engine_support import found

CODE = """
import argparse
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 4)

    def forward(self, x, lengths):
        return self.rnn(x)[0][lengths]

def iterate(model, x, lengths):
    if kind == "elmo":
        return model(x)
    return model(x, lengths)

def main(data, path):
    {test}
    for x, lengths in data:
        print(iterate(Net(), x, lengths))

parser = argparse.ArgumentParser()
parser.add_argument("--kind", default="rnn", choices=["rnn", "elmo"])
parser.add_argument("--path")
args = parser.parse_args()
kind = args.kind
main(torch.load(args.path), args.path)
"""


@pytest.mark.parametrize(
    ("test", "is_silent"),
    [
        ("pass", False),
        ("assert kind == 'rnn'", True),
        ("assert path and kind == 'rnn', path", True),
        ("assert kind == 'elmo'", False),
        ("assert kind != 'none'", False),
        ("assert kind == 'rnn' or path", False),
    ],
)
def test_what_is_asserted_holds_in_what_is_called(test: str, is_silent: bool) -> None:
    assert bool(found("DL843", CODE.format(test=test))) is not is_silent
