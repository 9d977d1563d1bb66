"""What a finding assumes of definitions that nothing is seen to call, and of files that cannot be imported."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_support import FITS, NET, found, kinds

from dllint.config.settings import Settings
from dllint.engine import Engine
from dllint.interp.source.facts import load_facts
from dllint.interp.source.project import Project
from dllint.registry import load_rules
from dllint.testing.checking import find_rules

BUG = """
import torch.nn.functional as F

def train(model, loader):
    for x, y in loader:
        F.cross_entropy(F.softmax(model(x), 1), y).backward()
"""
SCRIPT = "from elsewhere import fit\n\ndef main():\n    fit(1)\n\nif __name__ == '__main__':\n    main()\n"


def test_the_callers_of_a_library_are_outside() -> None:
    assert kinds("DL101", BUG) == ["entry"]


def test_a_package_may_pass_a_name_on() -> None:
    files = {
        "tools/__init__.py": "from .steps import train\n",
        "tools/steps.py": BUG,
        "run.py": f"from tools import train\ntask = train\n{SCRIPT}",
    }
    (finding,) = found("DL101", "", files)
    assert [each.kind for each in finding.assumptions] == ["entry"]


def test_a_package_that_only_lists_a_name_does_not_use_it() -> None:
    files = {"tools/__init__.py": "from .steps import train\n\n__all__ = ['train']\n", "tools/steps.py": BUG}
    (finding,) = found("DL101", "", {**files, "run.py": SCRIPT, "README.md": ""})
    assert "effect" in [each.kind for each in finding.assumptions]


@pytest.mark.parametrize(
    ("source", "files"),
    [
        (BUG, {"run.py": SCRIPT}),
        (f"{BUG}\n# train(model, loader)\n", {"run.py": SCRIPT}),
        (BUG, {"run.py": f"from main import train\n{SCRIPT}"}),
        (BUG, {"run.py": f"{SCRIPT}\ndef train(): pass\ntrain()\n"}),
        (f"{BUG}\ndef evaluate():\n    print(2)\nevaluate()\n", {}),
        (BUG, {"run.py": f"import main\n{SCRIPT}\nprint(main, '[train]')\n"}),
    ],
    ids=[
        "not-named",
        "in-a-comment",
        "imported-only",
        "another-of-that-name",
        "its-own-script-runs-others",
        "in-the-head-of-a-line",
    ],
)
def test_what_nothing_calls_may_never_be_used(source: str, files: dict[str, str]) -> None:
    assert kinds("DL101", source, {"README.md": "", **files}) == ["effect"]


def test_the_callers_may_be_in_another_part_of_the_project() -> None:
    """Where there are modules alone, without any other file around them, the rest may be elsewhere."""
    assert kinds("DL101", BUG, {"run.py": SCRIPT}) == ["entry"]
    assert kinds("DL101", f"{BUG}\ndef evaluate():\n    print(2)\n{SCRIPT}", {}) == ["effect"]


@pytest.mark.parametrize(
    "files",
    [
        {"run.py": f"import main\n{SCRIPT}\nhandlers = {{'a': main.train}}\n"},
        {"run.py": SCRIPT, "conf/engine.yaml": "_target_: main.train\n"},
        {"run.py": f"import main\n{SCRIPT}\ngetattr(main, 'train')\n"},
    ],
    ids=["handed-on", "in-a-configuration", "by-its-name"],
)
def test_what_may_be_called_is_an_entry(files: dict[str, str]) -> None:
    assert kinds("DL101", BUG, {"README.md": "", **files}) == ["entry"]


def test_a_module_that_nobody_makes_may_never_be_used() -> None:
    assert kinds("DL308", NET, {"run.py": SCRIPT, "requirements.txt": "torch"}) == ["effect"]
    assert kinds("DL308", NET, {"run.py": f"from main import Net\nnet = Net()\n{SCRIPT}"}) == []


BROKEN = "def load():\nreturn 1\n"
USE = (
    "import torch\nimport torch.nn.functional as F\n{}\nF.cross_entropy(F.softmax(torch.rand(2, 3), 1), y).backward()\n"
)


@pytest.mark.parametrize(
    ("imports", "files", "expected"),
    [
        ("import data", {"data.py": BROKEN}, True),
        ("from data import load", {"data.py": BROKEN}, True),
        ("import tools", {"tools.py": "import data\n", "data.py": BROKEN}, True),
        ("try:\n    import data\nexcept SyntaxError:\n    data = None", {"data.py": BROKEN}, False),
        ("import data", {"data.py": "print 'for Python 2'\n"}, False),
        ("import data", {"data.py": "def load():\n    return 1\n"}, False),
    ],
)
def test_a_program_that_imports_a_broken_file_cannot_run(
    tmp_path: Path, imports: str, files: dict[str, str], expected: bool
) -> None:
    for name, text in {"main.py": USE.format(imports), **files}.items():
        (tmp_path / name).write_text(text, "utf-8")
    engine = Engine(load_facts(), find_rules(["DL101"], load_rules()), Settings(tmp_path, frozenset(["DL101"])))
    project = Project(tmp_path)
    (finding,) = engine.analyse(project.load(tmp_path / "main.py"), project).findings
    assert any("data.py" in each.text for each in finding.assumptions) is expected


GUARDED = """
import torch.nn as nn
from omegaconf import load
class Net(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.head = nn.Linear(4, 2)
        if config.noise > 0:
            self.perturb = nn.Linear(4, 4)
    def forward(self, x):
        return self.head(x)
net = Net(load("net.yaml"))
"""


@pytest.mark.parametrize(
    ("files", "assumed"),
    [
        ({"net.yaml": "noise: 0.0\nwidth: 3\n", "other.yaml": "noise: 0\n"}, ["no-default"]),
        ({"net.yaml": "noise: 0.0\n", "other.yaml": "noise: 0.1\n"}, []),
        ({"net.yaml": "other_noise: 0.0\n"}, []),
        ({"net.yaml": "noise: level\n"}, []),
    ],
    ids=["off-in-all", "on-in-one", "in-none", "computed"],
)
def test_a_layer_that_no_configuration_asks_for_is_assumed_to_be_made(
    files: dict[str, str], assumed: list[str]
) -> None:
    assert kinds("DL223", GUARDED, files) == assumed


INDIRECT = """
import numpy as np
import torch

class Reader:
    def __init__(self, rows):
        self.rows = rows

    def table(self):
        return np.asarray(self.rows, dtype=np.float)

    def show(self):
        return self.once_more()

    def once_more(self):
        return self.table() if self.rows else self.show()

def main():
    {}

main()
"""
OTHER = """
class Other:
    def table(self):
        return 1

    def show(self):
        print(self.table())

def main():
    print(Reader([1]).rows)
    Other().show()

main()
"""
NUMBERS = """
import numpy as np
import torch

class Reader:
    def __init__(self, rows):
        self.rows = rows

    def table(self):
        return np.asarray(self.rows, dtype=np.float)

{}
"""


@pytest.mark.parametrize(
    ("source", "is_question"),
    [
        (NUMBERS.format("def main():\n    print(Reader([1]).rows)\n\nmain()"), True),
        (NUMBERS.format("print(Reader([1]).table())"), False),
        (NUMBERS.format("print(getattr(Reader([1]), 'table')())"), False),
        (NUMBERS.replace("class Reader:", "class Reader(Base):").format("print(Reader([1]).rows)"), False),
        (NUMBERS.format("rows = []"), False),
        (
            NUMBERS.format("class More(Reader):\n    def table(self):\n        return super().table()\n\nMore([1])"),
            True,
        ),
        (NUMBERS.format(OTHER), True),
        (NUMBERS.format(f"{OTHER}\nOther().table()"), False),
        (INDIRECT.format("print(Reader([1]).rows)"), True),
        (INDIRECT.format("print(Reader([1]).show())"), False),
        (NUMBERS.format(OTHER.replace("def table", "def tables").replace("Other:", "Other(Reader):")), False),
        (
            NUMBERS.format("class More(Reader):\n    def head(self):\n        return super().table()\n\nMore([1])"),
            False,
        ),
    ],
    ids=[
        "never-read",
        "called",
        "by-its-name",
        "of-a-base-that-is-not-known",
        "callers-elsewhere",
        "by-one-of-its-name",
        "of-another-class-by-itself",
        "of-another-class",
        "by-one-that-is-never-read",
        "by-one-that-is-read",
        "by-what-derives-from-it",
        "by-another-one",
    ],
)
def test_a_method_that_nothing_reads_may_never_be_called(source: str, is_question: bool) -> None:
    assert ("effect" in kinds("DL842", source)) is is_question


SET = """
import numpy as np
from torch.utils import data

class Testset(data.Dataset):
    def __init__(self, rows):
        self.rows = rows

    def __getitem__(self, index):
        return np.asarray(self.rows[index], dtype=np.float)
"""
READ = "from readers import Testset\n\nfor row in Testset([1]):\n    print(row)\n"


def test_a_class_that_is_made_with_arguments_is_none_of_tests() -> None:
    assert "effect" in kinds("DL842", SET, {"run.py": READ, "README.md": "main.py holds the data\n"})


WITHIN = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(4)

    def freeze(self):
        def switch(layer):
            if "BatchNorm" in layer.__class__.__name__:
                layer.eval()
                layer.requires_grad = False
        self.apply(switch)

    def forward(self, x):
        return self.norm(x)

def main():
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    {}
    net(torch.load("batch.pt")).sum().backward()
    optimizer.step()
    torch.save(net.state_dict(), "net.pt")

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(("use", "expected"), [("net.freeze()", False), ("# net.freeze()", True)])
def test_a_function_within_a_method_that_nothing_reads(use: str, expected: bool) -> None:
    assert ("effect" in kinds("DL309", WITHIN.format(use))) is expected


HANDED_ON = "    def add_options(parent):\n        return Net.add_options(parent)\n"
OPTIONS_OF_A_MODEL = """
import argparse
import pytorch_lightning as pl

class Net(pl.LightningModule):
    @staticmethod
    def add_options(parent):
        parser = argparse.ArgumentParser(parents=[parent])
        parser.add_argument("--flip", type=bool, default=True)
        return parser

    def training_step(self, batch, index):
        return batch.sum()
"""


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        ("Net()", ["effect", "entry"]),
        ("from elsewhere import more\nNet.add_options(more)", []),
        (f"class More(Net):\n    @staticmethod\n{HANDED_ON}\nMore()", ["effect", "entry"]),
    ],
)
def test_no_framework_calls_what_is_static(use: str, expected: list[str]) -> None:
    files = {"net.py": OPTIONS_OF_A_MODEL, "README.md": ""}
    assert kinds("DL841", f"from net import Net\n{use}\n{FITS}", files) == expected


@pytest.mark.parametrize(
    ("folder", "is_question"),
    [("old", True), ("code_archive", True), ("discarded_src", True), (".Archive", True), ("cold", False), ("", False)],
)
def test_a_folder_of_old_files_is_set_aside(folder: str, is_question: bool) -> None:
    (finding,) = found("DL842", "", {f"{folder}/run.py".lstrip("/"): "import numpy as np\nprint(np.float(3))\n"})
    assert any(each.kind == "effect" for each in finding.assumptions) is is_question


@pytest.mark.parametrize(
    ("name", "text", "is_question"),
    [
        ("playground.py", "", True),
        ("train_old.py", "", True),
        ("train.py", '"""Out of date: see main.py."""\n', True),
        ("train.py", '"""Trains a model on old photographs."""\n', False),
    ],
)
def test_a_file_that_says_so_is_set_aside(name: str, text: str, is_question: bool) -> None:
    (finding,) = found("DL842", "", {name: f"{text}import numpy as np\nprint(np.float(3))\n"})
    assert any(each.kind == "effect" for each in finding.assumptions) is is_question


GOES = SCRIPT.replace(" main()", " go()")  # in which nothing has the name of the file


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"run.py": GOES}, ["effect"]),
        ({"run.py": f"import main\n{GOES}"}, []),
        ({"run.py": GOES, "README.md": "See main.py.\n"}, []),
        ({"train.py": "import elsewhere\nelsewhere.fit(1)\n"}, ["effect"]),
        ({"run.py": f"# from main import BEST\nfrom torch.utils import main\nmain.go()\n{GOES}"}, ["effect"]),
        ({"run.py": f"from torch.utils import main\nmain.go('models.main')\n{GOES}"}, []),
        ({"run.py": f"from models import main\n{GOES}"}, []),
        ({}, []),  # a library, or a part of something
    ],
    ids=[
        "nobody",
        "a-script",
        "a-note",
        "a-script-without-guard",
        "a-comment-and-a-library",
        "a-text",
        "a-folder",
        "alone",
    ],
)
def test_a_file_that_only_defines_is_there_for_who_imports_it(files: dict[str, str], expected: list[str]) -> None:
    source = "import numpy as np\nBEST = np.Inf\n"
    assert [kind for kind in kinds("DL842", source, {"README.md": "", **files}) if kind != "version"] == expected


@pytest.mark.parametrize(("use", "expected"), [("", ["effect"]), ("import main\n", [])])
def test_what_a_decorator_keeps_is_there_for_who_imports_its_file(use: str, expected: list[str]) -> None:
    source = "import numpy as np\nKEPT = []\n\n@KEPT.append\ndef best(x):\n    return x or np.Inf\n"
    files = {"README.md": "", "run.py": f"{use}{GOES}"}
    assert [kind for kind in kinds("DL842", source, files) if kind != "version"] == expected
