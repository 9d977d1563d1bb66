"""What a file binds only when it is run itself is missing where another script calls what reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from interpreting import run

from dllint.events import CallRefused

NETS = """
from torch import nn

class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.layer = nn.Linear(size, 4 if args.wide else 2)

def size_of():
    return args.size

def unused():
    return 3

if __name__ == "__main__":
    import argparse
    args = argparse.ArgumentParser().parse_args()
    print(Net(3))
"""
MAIN = """
import torch
from nets import *
def save(path, model):
    return path
if __name__ == "__main__":
    {use}
    save(1)
"""


def goes_on(folder: Path, use: str, nets: str = NETS, **files: str) -> bool:
    (folder / "README.md").write_text("# Models\n")
    return bool(run(folder, MAIN.replace("{use}", use), nets=nets, **files).all_of(CallRefused))


@pytest.mark.parametrize("use", ["net = Net(3)", "print(size_of())", "args = 3\n    net = Net(3)"])
def test_nothing_happens_after_it(tmp_path: Path, use: str) -> None:
    assert not goes_on(tmp_path, use)


@pytest.mark.parametrize(
    ("use", "nets"),
    [
        ("unused()", NETS),
        ("import nets\n    nets.args = 3\n    Net(3)", NETS),
        ("import nets\n    setattr(nets, 'args', 3)\n    Net(3)", NETS),
        ("if torch.cuda.is_available():\n        Net(3)", NETS),
        ("try:\n        Net(3)\n    except NameError:\n        pass", NETS),
        ("Net(3)", "args = None\n" + NETS),
        ("Net(3)", NETS.replace('if __name__ == "__main__":', "if True:")),
        ("Net(3)", NETS.replace('if __name__ == "__main__":', 'if __name__ != "main":')),
        ("Net(3)", NETS.replace('if __name__ == "__main__":', 'if __name__ == "__main__" or True:')),
        ("Net(3)", NETS + "else:\n    args = 3\n"),
        ("Net(3)", NETS.replace("super()", "args = size\n        super()")),
        ("Net(3)", NETS.replace("def unused():", "def unused():\n    global args\n    args = 4")),
        ("Net(3)", "from options import *\n" + NETS),
        ("Net(3)", "from fastai.vision import *\n" + NETS),
        ("Net(3)", NETS.replace("args", "type")),
    ],
)
def test_it_may_be_there_after_all(tmp_path: Path, use: str, nets: str) -> None:
    assert goes_on(tmp_path, use, nets, options="args = 3\n")


def test_the_script_itself_has_it(tmp_path: Path) -> None:
    assert run(tmp_path, NETS + "    Net(3)\n    unused(1)\n").all_of(CallRefused)
