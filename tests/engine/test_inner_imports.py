"""Names that are imported inside a function, or under a condition, are followed as others are, by the sieve too."""

from __future__ import annotations

import pytest

from dllint.testing import check

HELPERS = """
from torch.nn import functional as F


def objective(logits, target):
    return F.cross_entropy(logits, target)  # DL101
"""
NETS = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return torch.softmax(self.layer(x), dim=1)
"""
LONG = "\n    ".join(f"number_{i} = {i}" for i in range(12))

IN_FUNCTION = f"""
def run(images, target):
    from helpers import objective
    from nets import Net
    {LONG}
    return objective(Net()(images), target)


run(given.images, given.target)
"""
RENAMED = IN_FUNCTION.replace("import objective", "import objective as o").replace("objective(Net", "o(Net")
WHOLE = IN_FUNCTION.replace("from helpers import objective", "import helpers").replace(
    "return objective(", "return helpers.objective("
)
IN_TRY = IN_FUNCTION.replace("    from helpers import objective\n", "").replace(
    "\ndef run", "\ntry:\n    from helpers import objective\nexcept ImportError:\n    raise\n\n\ndef run"
)
IN_METHOD = f"""
class Learner:
    def run(self, images, target):
        from helpers import objective
        from nets import Net
        {LONG.replace("    ", "        ")}
        return objective(Net()(images), target)


Learner().run(given.images, given.target)
"""


@pytest.mark.parametrize("source", [IN_FUNCTION, RENAMED, WHOLE, IN_TRY, IN_METHOD])
def test_what_an_inner_import_brings_is_followed(source: str) -> None:
    check("DL101", source, files={"helpers.py": HELPERS, "nets.py": NETS}, vary=())


def test_the_words_of_an_inner_import_count_where_it_is_renamed() -> None:
    source = f"""
def run(images, target):
    from torch.nn.functional import cross_entropy as objective
    from nets import Net
    {LONG}
    return objective(Net()(images), target)  # DL101


def main(images, target):
    run(images, target).backward()
"""
    check("DL101", source, files={"nets.py": NETS}, vary=())
