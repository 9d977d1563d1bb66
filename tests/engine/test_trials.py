"""What a file tries out, shows as an example or cannot import itself is no use of what it defines."""

from __future__ import annotations

import pytest
from engine_support import FITS, NET, kinds

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
        (
            "print(net(torch.FloatTensor(2, args.width).random_(0, 9)).shape)",
            {"nets/__init__.py": "from .net import Net\n"},
            ["effect"],
        ),
        ("print(net.layer.weight.shape)", {"run.py": f"from nets.net import Net\nNet(3)\n{FITS}"}, ["effect"]),
        ("print(net.layer.weight.shape)", {"run.py": FITS}, []),
        ("print(net(load()).size())", {"nets/__init__.py": "from .net import Net\n"}, []),
    ],
    ids=["of-a-package", "on-numbers", "imported", "by-itself", "on-data"],
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
