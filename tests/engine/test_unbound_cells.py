"""Cells of notebooks that read what no cell binds: what is found in them rests on its being there."""

from __future__ import annotations

import pytest
from notebooks import book

from dllint.registry import load_rules
from dllint.testing.linting import Setup, lint

RULES = Setup([rule for rule in load_rules() if rule.code == "DL101"])
FIRST = "import torch\nimport torch.nn.functional as F\nx, y = torch.rand(2, 3), torch.tensor([0, 1])\n"
LOSS = "loss = F.cross_entropy(F.softmax(x, 1), y)\n"


@pytest.mark.parametrize(
    ("cells", "is_question"),
    [
        ((FIRST, f"optimizer = optim.Adam([x])\n{LOSS}"), True),
        ((FIRST, f"optimizer = optim.Adam([x])\n{LOSS}", "from torch import optim\n"), False),
        ((FIRST, "optimizer = optim.Adam([x])\n", LOSS), False),
        ((FIRST, f"{LOSS}optimizer = optim.Adam([x])\n"), False),
        ((FIRST, f"def make():\n    return optim.Adam([x])\n\n{LOSS}"), False),
        ((FIRST, f"optimizer = optim.Adam([x])\n{LOSS}", "%run helpers.ipynb\n"), False),
        ((FIRST, f"optimizer = optim.Adam([x])\n{LOSS}", "from helpers import *\n"), False),
        ((FIRST, f"print(_, display)\n{LOSS}"), False),
    ],
    ids=[
        "nowhere",
        "in-a-later-cell",
        "read-in-another-cell",
        "read-below",
        "read-in-a-function",
        "by-another-notebook",
        "by-a-star",
        "by-the-kernel",
    ],
)
def test_what_follows_in_the_cell_is_not_reached(cells: tuple[str, ...], is_question: bool) -> None:
    linted = lint({"book.ipynb": book(*cells), "README.md": "# Notes\n"}, RULES)
    (finding,) = [each for one in linted for each in one.findings]
    assert any("no cell binds" in each.text for each in finding.assumptions) is is_question
