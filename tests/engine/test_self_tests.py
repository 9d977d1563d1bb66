"""What is only below the main guard of a module: it trains on made-up numbers, or shows functions with more imports."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_support import FITS, kinds

from dllint.files.source import source_from_text
from dllint.interp.source.module import SourceModule
from dllint.interp.source.trials import is_tried_out

FLOW = """
import torch
from torch import nn

class Flow(nn.Module):
    def __init__(self, width, bias):
        super().__init__()
        self.layer = nn.Linear(width, width, bias=bias)

    def forward(self, x):
        return self.layer(x)

if __name__ == '__main__':
    flow = Flow(4)
    optimizer = torch.optim.Adam(flow.parameters())
    for _ in range(10):
        x = {}
        optimizer.zero_grad()
        (flow(x) - x).norm().backward()
        optimizer.step()
    {}
"""


@pytest.mark.parametrize(
    ("x", "last", "files", "expected"),
    [
        ("torch.randn(2, 4)", "", {"run.py": f"from main import Flow\n{FITS}"}, ["effect"]),
        ("torch.randn(2, 4)", "", {"run.py": FITS}, []),
        ("torch.randn(2, 4)", "", {"run.py": f"from main import Flow\n{FITS}", "README.md": "`python main.py`"}, []),
        ("torch.load('x.pt')", "", {"run.py": f"from main import Flow\n{FITS}"}, []),
        (
            "torch.randn(2, 4)",
            "torch.save(flow.state_dict(), 'flow.pt')",
            {"run.py": f"from main import Flow\n{FITS}"},
            [],
        ),
    ],
    ids=["imported", "by-itself", "run-by-a-command", "on-data", "kept"],
)
def test_what_a_module_trains_on_made_up_numbers(x: str, last: str, files: dict[str, str], expected: list[str]) -> None:
    assert kinds("DL843", FLOW.format(x, last), {"README.md": "", **files}) == expected


SCORE = """
import numpy as np

def score(images):
    return images.mean()

if __name__ == '__main__':
    {}
    images = read('images').read()
    print(score(np.float(images)))
"""


@pytest.mark.parametrize(
    ("name", "head", "more", "expected"),
    [
        ("tools/score.py", "from reading import read", {}, ["effect"]),
        ("tools/score.py", "from reading import read", {"README.md": "`python tools/score.py`"}, []),
        ("tools/score.py", "read = open", {}, []),
        ("score.py", "from reading import read", {}, []),
        ("scripts/score.py", "from reading import read", {}, []),
    ],
    ids=["beside-modules", "run-by-a-command", "no-more-than-its-functions", "in-the-root", "among-scripts"],
)
def test_functions_that_are_shown_with_more_imports(
    name: str, head: str, more: dict[str, str], expected: list[str]
) -> None:
    files = {"README.md": "", "tools/__init__.py": "", "tools/items.py": "def items():\n    return []\n", **more}
    found_kinds = kinds(
        "DL842", "", {name: SCORE.format(head), "run.py": f"from tools.items import items\n{FITS}", **files}
    )
    assert [each for each in found_kinds if each != "version"] == expected


CHECKS = """
import torch
from elsewhere import fit

def scale(x):
    return 2 * x

class Check:
    def check():
        x = torch.randn(2, 3)
        {}

if __name__ == '__main__':
    Check.check()
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("for one, other in [(scale, lambda x: scale(x))]: print(one(x) - other(x))", True),
        ("flip = lambda inner: inner(x).flip(0)\n        print(flip(scale))", True),
        ("def inner(x): return scale(x).sum()\n        inner(x).backward()", True),
        ("def inner(x): fit(x)\n        inner(x)", False),
        ("for one in [scale]: fit(one(x))", False),
        ("from elsewhere import train\n        train(x)", False),
    ],
    ids=["in-a-loop", "a-parameter", "a-function-within", "that-works", "a-loop-that-works", "imported-within"],
)
def test_what_a_trial_calls_by_names_of_its_own(line: str, expected: bool) -> None:
    assert is_tried_out(SourceModule(source_from_text(CHECKS.format(line), Path("main.py")), "main")) is expected
