"""How many axes there are after a pooling: that of a signal also takes a batch of features."""

from __future__ import annotations

from pathlib import Path

import pytest
from interpreting import run

POOLED = """
import torch
from torch import nn

def main(x):
    return {expression}

y = main(torch.load("x.pt"))
"""


@pytest.mark.parametrize(
    ("expression", "rank"),
    [
        ("nn.AvgPool1d(5)(nn.Linear(8, 50)(x))", None),
        ("nn.MaxPool1d(2)(nn.Conv1d(8, 16, 3)(x))", 3),
        ("nn.AvgPool2d(2)(x)", 4),
    ],
)
def test_axes_after_a_pooling(tmp_path: Path, expression: str, rank: int | None) -> None:
    program = run(tmp_path, POOLED.format(expression=expression))
    assert program.context.shape(program.variables["y"]).rank == rank
