"""What a finding assumes of definitions that nothing is seen to call, and of files that cannot be imported."""

from __future__ import annotations

from pathlib import Path

import pytest
from engine_support import found

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
NET = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4), nn.Linear(4, 4)]

    def forward(self, x):
        return self.layers[1](self.layers[0](x))
"""
SCRIPT = "from elsewhere import fit\n\ndef main():\n    fit(1)\n\nif __name__ == '__main__':\n    main()\n"


def kinds(code: str, source: str, files: dict[str, str] | None = None) -> list[str]:
    """The kinds of assumption of the findings in ``main.py``."""
    return [each.kind for finding in found(code, source, files) for each in finding.assumptions]


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
    ],
    ids=["not-named", "in-a-comment", "imported-only", "another-of-that-name", "its-own-script-runs-others"],
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


FITS = "from elsewhere import fit\n\nif __name__ == '__main__':\n    fit()\n"
RUNS = "from main import Net\nnet = Net()\nfor x in load():\n    net(x)\n"
TRIAL = "\nif __name__ == '__main__':\n    net = Net()\n    print(net(torch.randn(2, 4)).shape)\n"
OUTPUT = '{"cells": [{"cell_type": "code", "source": "print(model)", "outputs": [{"text": ["Net()"]}]}]}'

NOTEBOOK = '{"cells": [{"cell_type": "code", "source": ["CODE"], "outputs": []}]}'


@pytest.mark.parametrize(
    ("source", "files"),
    [
        (f"{NET}{TRIAL}", {"run.py": FITS}),
        (f"{NET}\ndef make(width=4):\n    return Net()\n{TRIAL.replace('Net()', 'make()')}", {"run.py": FITS}),
        (f"{NET}\ndef demo():\n    print(Net())\n\nif __name__ == '__main__':\n    demo()\n", {"run.py": FITS}),
        (f"{NET}\nclass Wide(Net):\n    pass\n\nif __name__ == '__main__':\n    Wide()\n", {"run.py": FITS}),
        (f"{NET}{TRIAL}", {"run.py": f"from main import Net\ndef unused():\n    return Net()\n{FITS}"}),
        (f"{NET}{TRIAL}", {"run.py": f"from other import Net\n{FITS}\nNet()\n"}),
        (f"{NET}{TRIAL}", {"run.py": FITS, "look.ipynb": OUTPUT}),
        (f"{NET}{TRIAL}", {"run.py": FITS, "look.ipynb": NOTEBOOK.replace("CODE", "from main import Net")}),
        (f"{NET}{TRIAL}", {"run.py": f"import importlib\nimportlib.import_module(f'models.{{name}}')\n{FITS}"}),
        (f"{NET}{TRIAL}", {"run.py": FITS, "run.sh": "# Net\npython run.py --Net=3 --width 3\n"}),
        (f"{NET}{TRIAL}", {"run.py": f"import torch.nets as nets\nfrom main import other\n{FITS}\nnets.Net(other)\n"}),
        (
            f"{NET}{TRIAL}",
            {"run.py": FITS, "x/main.py": "class Net: pass\n", "x/go.py": f"from main import Net\n{FITS}Net()\n"},
        ),
    ],
    ids=[
        "made-up-numbers",
        "a-maker",
        "a-function",
        "a-subclass",
        "used-by-what-is-unused",
        "another-of-that-name",
        "printed",
        "imported-by-a-notebook",
        "another-folder-imported-by-name",
        "comment-and-option-of-a-script",
        "of-a-library",
        "of-another-file-of-that-name",
    ],
)
def test_a_trial_at_the_end_of_its_file_is_no_use(source: str, files: dict[str, str]) -> None:
    assert set(kinds("DL308", source, {"README.md": "", **files})) == {"effect"}


@pytest.mark.parametrize(
    ("source", "files"),
    [
        (f"{NET}{TRIAL}", {"run.py": RUNS}),
        (f"{NET}{TRIAL}", {"deep/run.py": f"import sys\nsys.path.append('..')\n{RUNS}"}),
        (f"{NET}{TRIAL}", {"run.py": f"from main import Net as Network\n{FITS}\nNetwork()\n"}),
        (
            f"{NET}{TRIAL}",
            {
                "run.py": FITS,
                "look.ipynb": NOTEBOOK.replace("CODE", "from main import Net\\nNet()"),
            },
        ),
        (f"{NET}{TRIAL}", {"run.py": f"import importlib\nimportlib.import_module(name)\n{FITS}"}),
        (f"{NET}{TRIAL}", {"run.py": f"import importlib\nimportlib.import_module('ma' + name)\n{FITS}"}),
        (f"{NET}{TRIAL}", {"run.py": f"import_module('models.net')\nspec_from_file_location(name, path)\n{FITS}"}),
        (f"{NET}{TRIAL.replace('print', 'torch.save')}", {"run.py": FITS}),
        (
            f"from fitting import fit\n{NET}{TRIAL.replace('print(net', 'fit(net').replace('.shape', '')}",
            {"run.py": FITS},
        ),
        (f"{NET}{TRIAL.replace('net(torch.randn(2, 4)).shape', 'net')}", {}),
    ],
    ids=[
        "trained",
        "along-a-path",
        "renamed",
        "notebook",
        "imported-by-name",
        "by-its-beginning",
        "by-its-path",
        "saved",
        "given-away",
        "by-itself",
    ],
)
def test_what_another_file_uses_is_more_than_tried_out(source: str, files: dict[str, str]) -> None:
    assert "effect" not in kinds("DL308", source, {"README.md": "", **files})


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        ("from losses.margin import Margin", ["effect"]),
        ("from names import missing", ["effect"]),
        ("from names import present", []),
        ("try:\n    from losses.margin import Margin\nexcept ImportError:\n    Margin = None", []),
    ],
    ids=["missing-module", "missing-name", "there", "tried"],
)
def test_what_cannot_be_imported_itself_uses_nothing(imports: str, expected: list[str]) -> None:
    files = {
        "losses/center.py": "class Center:\n    pass\n",
        "names.py": "present = 1\n",
        "run.py": f"from main import scale\n{imports}\nprint(scale(2, 3))\n{FITS}",
        "README.md": "",
    }
    scale = "import numpy as np\nimport torch\n\n\ndef scale(width, height):\n    return np.float(width) * height\n"
    assert [kind for kind in kinds("DL842", scale, files) if kind != "version"] == expected


CALL = """
def scale(width, height):
    return width * height

{}
"""


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("if __name__ == '__main__':\n    print(scale(2))", ["effect"]),
        ("if __name__ == '__main__':\n    fit(scale(2))", []),
        ("print(scale(2))", []),
    ],
    ids=["tried-out", "handed-on", "at-the-top"],
)
def test_what_a_file_tries_out_at_its_end_is_no_use_of_it(call: str, expected: list[str]) -> None:
    assert kinds("DL843", f"import torch\nfrom fitting import fit\n{CALL.format(call)}", {"run.py": FITS}) == expected


EXAMPLE = """
import torch
from torch.utils.data import DataLoader
{}

if __name__ == '__main__':
    loader = DataLoader(read("data"), batch_size=2)
    print(scale(2), next(iter(loader)))
"""


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"run.py": f"from main import scale\nprint(scale(2, 3))\n{FITS}"}, ["effect"]),
        ({"run.py": f"from main import scale\nprint(scale(2, 3))\n{FITS}", "README.md": "`python main.py`"}, []),
        ({"run.py": FITS}, []),
    ],
    ids=["imported", "run-by-a-command", "by-itself"],
)
def test_what_a_file_that_others_import_shows_at_its_end_is_an_example(
    files: dict[str, str], expected: list[str]
) -> None:
    scale = "from reading import read\n\ndef scale(width, height):\n    return width * height\n"
    assert kinds("DL843", EXAMPLE.format(scale), files) == expected


@pytest.mark.parametrize(
    ("comment", "expected"), [("# Example usage:", ["effect"]), ("# all of them", []), ("", [])], ids=str
)
def test_a_comment_calls_what_follows_an_example(comment: str, expected: list[str]) -> None:
    saves = f"""
import torch
{CALL.format("")}
    torch.save(width, "width.pt")

if __name__ == '__main__':
    {comment}
    save_all(scale(2))
"""
    files = {"run.py": f"from main import scale\nprint(scale(2, 3))\n{FITS}"}
    assert kinds("DL843", saves, files) == expected


TRIAL_WITH_OPTIONS = """
import argparse
import torch

class Net(torch.nn.Module):
    def __init__(self, args):
        super().__init__()
        self.layer = torch.nn.Linear(args.width, 2)

    def forward(self, x):
        return self.layer(x)

if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('--width', type=int)
    parser.add_argument('--rate', type=float)
    args = parser.parse_args()
    net = Net(args)
    {}
"""


@pytest.mark.parametrize(
    ("use", "files", "expected"),
    [
        (
            "print(sum(p.nelement() for p in net.parameters()))",
            {"nets/__init__.py": "from .net import Net\n"},
            ["effect"],
        ),
        ("print(net.layer.weight.shape)", {"run.py": f"from nets.net import Net\nNet(3)\n{FITS}"}, ["effect"]),
        ("print(net.layer.weight.shape)", {"run.py": FITS}, []),
        ("print(net(load()).size())", {"nets/__init__.py": "from .net import Net\n"}, []),
    ],
    ids=["of-a-package", "imported", "by-itself", "on-data"],
)
def test_a_trial_may_take_the_options_of_its_model(use: str, files: dict[str, str], expected: list[str]) -> None:
    assert kinds("DL846", "", {"nets/net.py": TRIAL_WITH_OPTIONS.format(use), "run.py": FITS, **files}) == expected


def test_a_schedule_that_is_drawn_without_any_gradient_is_an_example() -> None:
    schedule = """
import torch
from torch.optim import Adam

class Schedule(torch.optim.lr_scheduler.LRScheduler):
    def get_lr(self):
        return [1 / self.last_epoch for group in self.optimizer.param_groups]

if __name__ == '__main__':
    optimizer = Adam(torch.nn.Linear(2, 2).parameters(), weight_decay=0.01)
    schedule = Schedule(optimizer)
    for step in range(100):
        optimizer.step()
        schedule.step()
"""
    assert kinds("DL301", schedule, {"run.py": f"from main import Schedule\nprint(Schedule(None))\n{FITS}"}) == [
        "effect"
    ]


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
        "by-another-one",
    ],
)
def test_a_method_that_nothing_reads_may_never_be_called(source: str, is_question: bool) -> None:
    assert ("effect" in kinds("DL842", source)) is is_question


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


FAILING = """
import argparse
import torch
from tools import trained
parser = argparse.ArgumentParser()
parser.add_argument("--flip", type=bool, default=True)
args = parser.parse_args()
flip = args.flip

if __name__ == "__main__":
    if args.{}:
        print(trained(torch.rand(2), flip))
"""


@pytest.mark.parametrize(("name", "expected"), [("flip", []), ("depth", ["effect"])])
def test_what_a_script_does_not_get_to_has_no_effect(name: str, expected: list[str]) -> None:
    """Neither its own options, nor what it would have called."""
    tools = "import numpy as np\n\ndef trained(x, flip):\n    return np.float(x)\n"
    files = {"tools.py": tools, "README.md": ""}
    assert kinds("DL841", FAILING.format(name), files) == expected
    assert [kind for kind in kinds("DL842", FAILING.format(name), files) if kind == "effect"] == expected


def test_what_trained_before_the_script_fails_has_trained() -> None:
    training = """
import argparse
import torch
parser = argparse.ArgumentParser()
parser.add_argument("--flip", type=bool, default=True)
args = parser.parse_args()
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.rand(2, 2) if args.flip else torch.rand(1, 2)).sum().backward()
optimizer.step()
name = str(args.name)
"""
    assert kinds("DL841", training, {"README.md": ""}) == []
    assert kinds("DL841", training.replace("optimizer.step()", ""), {"README.md": ""}) == ["effect"]


@pytest.mark.parametrize(
    ("folder", "is_question"), [("old", True), ("code_archive", True), (".Archive", True), ("cold", False), ("", False)]
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


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"run.py": FITS, "README.md": "`python run.py --lr 1`"}, ["effect"]),
        ({"run.py": FITS, "README.md": "`python main.py; python run.py`"}, []),
        ({"run.py": FITS, "README.md": "run `python setup.py develop` first"}, []),
        ({"run.py": f"import main\n{FITS}", "README.md": "`python run.py`"}, []),
    ],
    ids=["left-out", "run", "nothing-run", "imported"],
)
def test_a_script_that_the_commands_of_its_project_leave_out_may_never_be_run(
    files: dict[str, str], expected: list[str]
) -> None:
    assert kinds("DL843", f"import torch\n{CALL.format('print(scale(2))')}", files) == expected
