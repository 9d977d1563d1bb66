"""Classes and functions have a name, and are themselves: tests of these are decided where the object is known."""

from __future__ import annotations

from pathlib import Path

import pytest
from interpreting import run

from dllint.events import CallRefused

HEAD = """
import torch
from torch import nn


class Plain(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = nn.Linear(size, size)


class Pooled(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.layer = nn.Linear(dim, dim)


def build(size):
    return Plain(size)


block, other, made, loss = Pooled, Plain, Pooled(), nn.MSELoss()
"""


@pytest.mark.parametrize(
    "test",
    [
        "block.__name__ == 'Plain'",
        "block.__name__ != 'Pooled'",
        "block.__name__ in ('Plain', 'Wide')",
        "'Plain' in (block.__name__,)",
        "made.__class__.__name__ == 'Plain'",
        "type(made).__name__ == 'Plain'",
        "type(made) is Plain",
        "type(made) == Plain",
        "made.__class__ is not Pooled",
        "block is Plain",
        "block != Pooled",
        "block is other",
        "build.__name__ == 'make'",
        "loss.__class__.__name__ == 'CrossEntropyLoss'",
        "type(loss).__name__ != 'MSELoss'",
        "nn.MSELoss.__name__ == 'L1Loss'",
    ],
)
def test_a_branch_for_another_class_is_not_taken(tmp_path: Path, test: str) -> None:
    assert not _refused(tmp_path, test)


@pytest.mark.parametrize(
    "test",
    [
        "block.__name__ == 'Pooled'",
        "type(made) is Pooled",
        "unknown.__name__ == 'Plain'",
        "type(unknown) is Plain",
        "getattr(torch, unknown).__name__ == 'Plain'",
        "torch.sigmoid.__name__ == 'expit'",
        "block.name == 'Plain'",
    ],
)
def test_any_other_may_be(tmp_path: Path, test: str) -> None:
    assert _refused(tmp_path, test)


def _refused(folder: Path, test: str) -> bool:
    found = run(folder, f"{HEAD}\nif {test}:\n    net = block(size=8)\nelse:\n    net = block()\n")
    return bool(found.all_of(CallRefused))
