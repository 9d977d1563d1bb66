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


def inner():
    class Plain:
        pass

    return Plain


block, other, made, loss = Pooled, Plain, Pooled(), nn.MSELoss()
"""


@pytest.mark.parametrize(
    "test",
    [
        "block.__name__ == 'Plain'",
        "block.__name__ != 'Pooled'",
        "block.__qualname__ == 'Plain'",
        "type(made).__qualname__ == 'Plain'",
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
        "inner().__qualname__ == 'Plain'",
    ],
)
def test_any_other_may_be(tmp_path: Path, test: str) -> None:
    assert _refused(tmp_path, test)


def _refused(folder: Path, test: str) -> bool:
    found = run(folder, f"{HEAD}\nif {test}:\n    net = block(size=8)\nelse:\n    net = block()\n")
    return bool(found.all_of(CallRefused))


@pytest.mark.parametrize(
    ("model", "test", "expected"),
    [
        ("Wide()", "model_class.__qualname__ != 'Wide'", 0),
        ("Wide()", "model_class.__name__ != 'Wide'", 0),
        ("Wide()", "model_class.__qualname__ != 'Narrow'", 1),
        ("Wide()", "model_class.__qualname__ == 'Wide'", 1),
        ("Wide()", "model_class.name != 'Wide'", 1),
        ("make(entry['kind'])", "model_class.__qualname__ != 'Wide'", 0),
        ("make(entry['kind'])", "model_class.__qualname__ != 'Narrow'", 1),
    ],
)
def test_what_is_told_of_the_class_holds_for_the_object(tmp_path: Path, model: str, test: str, expected: int) -> None:
    """A script tests the class in one variable, and has the object in another."""
    source = f"""
    import torch
    from torch import nn


    class Narrow(nn.Module):
        def forward(self, x):
            return x.mean()


    class Wide(nn.Module):
        def forward(self, x, mask):
            return x.mean()


    def make(kind):
        if kind == "wide":
            return Wide()
        return Narrow()


    def evaluate(model, model_class, x):
        if {test}:
            return model(x)


    def main(entry):
        evaluate({model}, entry["class"], torch.zeros(2, 3))


    main(torch.load("entries.pt"))
    """
    assert len(run(tmp_path, source).all_of(CallRefused)) == expected
