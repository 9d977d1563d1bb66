"""More of what is only tried out: by functions and methods of a file, in notebooks, and what a comment left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from engine_support import FITS, NET, found, kinds

from dllint.files.source import source_from_text
from dllint.interp.source.module import SourceModule
from dllint.interp.source.trials import call_left_out

LOSS = """
import torch
import torch.nn.functional as F
from torch import nn

class Soft(nn.Module):
    def forward(self, x):
        return F.softmax(x, dim=1).log().sum()

    def look(self):
        return self.training

    def fill(self):
        return read(self)

def scale(x):
    return 2 * x

def main():
    criterion = Soft()
    x = torch.rand(2, 3)
    {}

if __name__ == '__main__':
    main()
"""
IMPORTS = "from main import scale\nprint(scale(2))\n"


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("criterion(x).backward()", ["effect"]),
        ("print(criterion.look())", ["effect"]),
        ("print(criterion.fill())", []),
        ("torch.save(criterion(x), 'x.pt')", []),
    ],
    ids=["gradients", "own-method", "a-method-that-reads", "saved"],
)
def test_a_function_that_only_looks_at_a_class_is_no_use_of_it(use: str, expected: list[str]) -> None:
    files = {"README.md": "", "run.py": f"{IMPORTS}{FITS}"}
    assert kinds("DL113", LOSS.format(use), files) == expected


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        (f"{IMPORTS}def main():\n    fit()\n\nmain()\n", ["effect"]),
        (f"import main\n{FITS}\nmain.main()\n", []),
        (f"from main import main\n{FITS}\nmain()\n", []),
        (f"from main import *\n{FITS}\nmain()\n", []),
        (f"{IMPORTS}from other import main\n{FITS}\nmain()\n", ["effect"]),
        (f"{IMPORTS}from passing import main\n{FITS}\nmain()\n", []),
    ],
    ids=["its-own", "of-the-module", "imported", "by-a-star", "of-another-file", "passed-on"],
)
def test_what_another_file_defines_under_the_same_name_is_something_else(user: str, expected: list[str]) -> None:
    uses = LOSS.format("fit(criterion)").replace("if __name__ == '__main__':\n    main()\n", "")
    files = {"other.py": "def main():\n    print(3)\n", "passing.py": "from main import main\n"}
    assert kinds("DL113", f"from fitting import fit\n{uses}", {"README.md": "", "run.py": user, **files}) == expected


OPTIONS = """
import argparse
import numpy as np
import torch

def compare(width):
    print(np.float(width))

if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--width', type=int)
    args = parser.parse_args()
    compare(args.width)
"""


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"run.py": f"from main import other\n{FITS}"}, ["effect"]),
        ({"run.py": f"from main import other\n{FITS}", "README.md": "`python main.py --width 3`"}, []),
        ({"run.py": FITS}, []),
    ],
    ids=["imported", "run-by-a-command", "by-itself"],
)
def test_a_trial_with_options_is_no_use_of_what_it_calls(files: dict[str, str], expected: list[str]) -> None:
    found_kinds = kinds("DL842", OPTIONS, {"README.md": "", **files})
    assert [each for each in found_kinds if each != "version"] == expected


@pytest.mark.parametrize(
    ("last", "expected"),
    [("# run(args.data)", "run"), ("# other(args.data)", ""), ("run(args.data)", ""), ("", "")],
    ids=["left-out", "of-nobody", "called", "nothing"],
)
def test_a_comment_tells_which_call_a_script_has_left_out(last: str, expected: str) -> None:
    script = f"""
def run(data):
    read(data)

if __name__ == '__main__':
    args = parser.parse_args()
    print(args.data)
    {last}
"""
    assert call_left_out(SourceModule(source_from_text(script, Path("main.py")), "main")) == expected


LOADER = """
import torch
from reading import read

class Loader:
    def __init__(self, path, size):
        self.items = read(path)

    def first(self):
        return read(self.items)

if __name__ == '__main__':
    loader = Loader('items.json')
    print({})
"""


@pytest.mark.parametrize(
    ("name", "use", "more", "expected"),
    [
        ("data/loading.py", "loader.first()", {}, ["effect"]),
        ("data/loading.py", "train(loader)", {}, []),
        ("data/loading.py", "loader.first()", {"README.md": "`python data/loading.py`"}, []),
        ("loading.py", "loader.first()", {}, []),
        ("scripts/loading.py", "loader.first()", {}, []),
    ],
    ids=["beside-modules", "that-works", "run-by-a-command", "in-the-root", "among-scripts"],
)
def test_an_example_in_a_folder_of_modules(name: str, use: str, more: dict[str, str], expected: list[str]) -> None:
    files = {"README.md": "", "data/__init__.py": "", "data/items.py": "def items():\n    return []\n", **more}
    run = f"from data.items import items\n{FITS}"
    assert kinds("DL843", "", {name: LOADER.format(use), "run.py": run, **files}) == expected


NESTED = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(3, 3)

    def freeze(self):
        def fix(module):
            module.eval()
            module.requires_grad = False
        self.apply(fix)

    def forward(self, x):
        return self.stem(x)
"""


@pytest.mark.parametrize(
    ("use", "expected"),
    [("", True), ("# net.freeze()", True), ("net.freeze()", False), ("getattr(net, 'freeze')()", False)],
    ids=["nowhere", "in-a-comment", "called", "by-its-name"],
)
def test_a_function_in_a_method_that_nobody_calls(use: str, expected: bool) -> None:
    files = {"README.md": "", "run.py": f"from main import Net\n{FITS}\nnet = Net()\nfit(net)\n{use}\n"}
    told = [each.text for finding in found("DL309", NESTED, files) for each in finding.assumptions]
    assert any("somebody uses `Net.freeze`" in text for text in told) is expected


DATA = """
import numpy as np
from torch.utils.data import Dataset

class Images(Dataset):
    def __len__(self):
        return 3

    def weights(self):
        return np.float(3)
"""


@pytest.mark.parametrize(("use", "expected"), [("", True), ("fit(images.weights())", False)], ids=["nowhere", "called"])
def test_a_method_of_a_dataset_that_nobody_calls(use: str, expected: bool) -> None:
    files = {"README.md": "", "run.py": f"from main import Images\n{FITS}\nimages = Images()\nfit(images)\n{use}\n"}
    told = [each.text for finding in found("DL842", DATA, files) for each in finding.assumptions]
    assert any("`Images.weights`" in text for text in told) is expected


def notebook(*cells: str) -> str:
    """A notebook with some cells of code."""
    return json.dumps(
        {"cells": [{"cell_type": "code", "source": [cell], "outputs": []} for cell in cells], "nbformat": 4}
    )


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["net = Net()\nprint(net(torch.rand(2, 4)).shape)"], True),
        (["x = torch.rand(2, 4)", "Net()(x).sum().backward()"], True),
        (["print(Net())", "from fitting import fit\nfit(Net())"], False),
        (["torch.save(Net(), 'net.pt')"], False),
        (["#| export\ndef make():\n    return Net()", "print(make())"], False),
    ],
    ids=["shapes", "gradients", "trained", "saved", "exported"],
)
def test_a_notebook_that_only_looks_at_what_it_defines(cells: list[str], expected: bool) -> None:
    told = [
        each.text
        for finding in found("DL308", "", {"look.ipynb": notebook(NET, *cells)})
        for each in finding.assumptions
    ]
    assert any("more than a trial" in text for text in told) is expected
