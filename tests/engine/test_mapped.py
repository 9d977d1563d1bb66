"""What ``map`` makes of a few things is taken apart: each part is what the function makes of one of them."""

from __future__ import annotations

import pytest
from engine_support import found

SCRIPT = """
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader

head = nn.Sequential(nn.Linear(8, 3), nn.Softmax(dim=1))

def train(data, device):
    for batch in DataLoader(data, batch_size=8):
        {}
        F.cross_entropy(logits, y).backward()
"""


@pytest.mark.parametrize(
    ("code", "is_wrong"),
    [
        ("x, y = batch; logits, y = map(lambda v: v.to(device), [head(x), y])", True),
        ("x, y = map(lambda v: v.to(device), batch); logits = head(x)", True),
        ("x, y = batch; logits, weights = map(head, (x, x))", True),
        ("x, y = batch; logits, y = map(lambda v: v.log(), [head(x), y])", False),
        ("x, y = batch; weights, logits = map(lambda v: v.to(device), [head(x), x])", False),
        ("x, y = batch; logits, y = map(move, [head(x), y])", False),  # which may be anything
    ],
)
def test_parts_of_what_is_mapped(code: str, is_wrong: bool) -> None:
    assert bool([each for each in found("DL101", SCRIPT.format(code)) if each.confidence != "possible"]) is is_wrong
