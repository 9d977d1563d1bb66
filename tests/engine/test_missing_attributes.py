"""A script ends where it reads what an object of the project does not have; that nothing gives it has to be certain."""

from __future__ import annotations

from pathlib import Path

import pytest
from interpreting import run, run_file

from dllint.events import CallRefused

CALL = "\ndef save(path, model):\n    return path\n\nsave(1)\n"
DATA = """
from torch.utils.data import Dataset

class Images(Dataset):
    def __init__(self, folder):
        self.names = [folder]
    def classWeights(self):
        return self.names
"""
RUNNER = """
class Base:
    def __init__(self, rounds):
        self.rate = rounds

class Runner(Base):
    steps = 3
    def train(self):
        for epoch in range(self._rounds):
            print(epoch)
"""
OTHER = "class Other:\n    def __init__(self):\n        self._rounds = 3\n"
ENUM = "from enum import Enum\nclass Mode(Enum):\n    EARLY = 1\n"
NET = "from torch import nn\nclass Net(nn.Module):\n    def __init__(self, n):\n        self.n = n\n"
MAIN = "\nif __name__ == '__main__':\n    "


def goes_on(folder: Path, use: str, data: str = DATA, readme: str = "# Models\n", **files: str) -> bool:
    if readme:
        (folder / "README.md").write_text(readme)
    code = f"import torch\nfrom data import *\n{MAIN}{use}\n    from elsewhere import save_it\n{CALL}"
    return bool(run(folder, code, data=data, **files).all_of(CallRefused))


@pytest.mark.parametrize(
    ("use", "data"),
    [
        ("Images('a').class_weights()", DATA),
        ("data = Images('a')\n    print(data.size)", DATA),
        ("Runner(3).train()", RUNNER),
        (
            "runner = Runner(3)\n    runner.train()",
            RUNNER + "class Other:\n    def __init__(self):\n        self._rounds = 3\n",
        ),
        ("Runner(3).train()", "import torch\nfrom torch import nn\n" + RUNNER.replace("Base:", "Base(object):")),
        (
            "Net(3)",
            "from torch import nn\nclass Net(nn.Module):\n    def __init__(self, n):\n        self.n = self.size\n",
        ),
    ],
)
def test_nothing_happens_after_it(tmp_path: Path, use: str, data: str) -> None:
    assert not goes_on(tmp_path, use, data)


@pytest.mark.parametrize(
    ("use", "data"),
    [
        ("print(Images('a').classWeights(), Images('a').names)", DATA),
        ("print(Runner(3).steps, Runner(3).rate)", RUNNER),
        ("runner = Runner(3)\n    runner._rounds = 3\n    runner.train()", RUNNER),
        ("setattr(Runner, '_' + 'rounds', 3)\n    Runner(3).train()", RUNNER),
        ("Runner(3).train()", RUNNER + "        setattr(self, 'rounds', 3)\n"),
        ("Runner(3).train()", RUNNER.replace("self.rate = rounds", "self.__dict__.update(rounds)")),
        ("Runner(3).train()", RUNNER + "    def __getattr__(self, name):\n        return 3\n"),
        ("Runner(3).train()", RUNNER + "    def set(self):\n        self._rounds = 3\n"),
        ("Runner(3).train()", RUNNER + "    if True:\n        _rounds: int\n"),
        ("Runner(3).train()", RUNNER.replace("class Base", "from elsewhere import Old\nclass Base(Old)")),
        ("Runner(3).train()", RUNNER.replace("class Runner", "from elsewhere import fill\n@fill\nclass Runner")),
        ("Runner(3).train()", RUNNER.replace("range(", "hasattr(self, '_rounds') and range(")),
        ("try:\n        Runner(3).train()\n    except AttributeError:\n        pass", RUNNER),
        ("if torch.cuda.is_available():\n        Runner(3).train()", RUNNER),
        (
            "Net(3).eval()",
            "from torch import nn\nclass Net(nn.Module):\n    def __init__(self, n):\n        self.n = n\n",
        ),
        ("net = torch.compile(Net(3))\n    print(net._orig_mod, net.inner)", NET),
    ],
)
def test_anything_else_may_go_on(tmp_path: Path, use: str, data: str) -> None:
    assert goes_on(tmp_path, use, data)


ELSE = "        else:\n            self.act = nn.Tanh()\n        self.size = size"
UNSET = """
from torch import nn

class Net(nn.Module):
    def __init__(self, size=4, activation="relu", *, deep=False):
        super().__init__()
        self.layer = nn.Linear(size, size)
        if activation == "ReLU":
            self.act = nn.ReLU()
        elif activation in ("ELU", "elu"):
            self.act = nn.ELU()
        if deep and not size == 3:
            self.second = nn.Linear(size, size)
        self.size = size

    def shape(self):
        return self.act, self.size

    def depth(self):
        return self.second
"""


@pytest.mark.parametrize(
    "use",
    [
        "Net().shape()",
        "Net(3, 'selu').shape()",
        "Net(activation='relu').shape()",
        "Net(4).depth()",
        "Net(3, deep=True).depth()",
    ],
)
def test_a_constructor_leaves_it_out(tmp_path: Path, use: str) -> None:
    assert not goes_on(tmp_path, use, UNSET)


@pytest.mark.parametrize(
    ("use", "data"),
    [
        ("Net(3, 'ReLU').shape()", UNSET),
        ("Net(activation='elu').shape()", UNSET),
        ("Net(deep=True).depth()", UNSET),
        ("import sys\n    Net(3, sys.argv[1]).shape()", UNSET),
        ("Net(**torch.load('options.pt')).shape()", UNSET),
        ("net = Net()\n    net.act = torch.relu\n    net.shape()", UNSET),
        ("import sys\n    Net(int(sys.argv[1]), deep=True).depth()", UNSET),
        ("Net().shape()", UNSET.replace("        self.size = size", ELSE)),
        ("Net().shape()", UNSET.replace('== "ReLU":', '!= "ReLU":')),
        ("Net().shape()", UNSET.replace("if activation ==", "activation = activation or 3\n        if activation ==")),
        ("Net().shape()", UNSET.replace("if activation ==", "if activation.lower() ==")),
        ("Net().shape()", UNSET + "    def fill(self):\n        self.act = nn.Tanh()\n"),
        ("Net().size", UNSET),
    ],
)
def test_a_constructor_may_set_it(tmp_path: Path, use: str, data: str) -> None:
    assert goes_on(tmp_path, use, data)


def test_another_file_of_the_program_may_set_it(tmp_path: Path) -> None:
    helper = "def prepare(runner):\n    runner._rounds = 3\n"
    assert goes_on(tmp_path, "import helper\n    Runner(3).train()", RUNNER, helper=helper)
    assert not goes_on(tmp_path, "Runner(3).train()", RUNNER, helper=helper)


def test_a_part_of_a_project_lacks_nothing(tmp_path: Path) -> None:
    assert goes_on(tmp_path, "Runner(3).train()", RUNNER, readme="")


def test_what_is_being_edited_goes_on(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# Models\n")
    (tmp_path / "data.py").write_text(RUNNER)
    unsaved = f"from data import Runner\n{MAIN}Runner(3).train()\n{CALL}"
    assert run_file(tmp_path / "main.py", unsaved).all_of(CallRefused)


@pytest.mark.parametrize(
    "use",
    [
        "import argparse\nargs = argparse.ArgumentParser().parse_args()\nprint(args['lr'])",
        "for epoch in range(3):\n    print(f\"{epoch:.4f if epoch else 'N/A'}\")",
        "factor = 4 + 'x'",
        "name = 'x' + 4",
    ],
)
def test_nothing_happens_after_what_python_refuses(tmp_path: Path, use: str) -> None:
    assert not run(tmp_path, use + CALL).all_of(CallRefused)


@pytest.mark.parametrize(
    "use",
    [
        "import argparse\nargs = vars(argparse.ArgumentParser().parse_args())\nprint(args['lr'])",
        "for i in range(3):\n    print(f\"{i:.4f} {i if i else 'N/A'} {i:{'.4f' if i else ''}}\")",
        "factor = 4 * 'x'\nname = 'x %d' % 4\nratio = 4 - True",
    ],
)
def test_what_python_takes_goes_on(tmp_path: Path, use: str) -> None:
    assert run(tmp_path, use + CALL).all_of(CallRefused)
