"""Whose attribute an expression reads: of an object of a class, of something else, or of what may be one."""

from __future__ import annotations

from pathlib import Path

import pytest

from dllint.interp.source.attribute_readers import is_read_outside
from dllint.interp.source.kin import Kin
from dllint.interp.source.project import Project

NET = """
import torch.nn as nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(4, 4)
        self.leave = nn.Linear(4, 4)

    def forward(self, x):
        return self.enter(x)

class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.leave = nn.Linear(4, 4)
        self.extra = nn.Linear(4, 4)
"""


def read(folder: Path, code: str, name: str = "leave", net: str = NET) -> bool | None:
    """Whether ``name`` of ``Net`` is read by some code in another file, which imports it."""
    (folder / "net.py").write_text(net, "utf-8")
    (folder / "pyproject.toml").write_text("", "utf-8")
    (folder / "use.py").write_text(f"import torchvision\nfrom net import Net, Other\n{code}\n", "utf-8")
    project = Project(folder)
    module = project.load(folder / "net.py")
    cls = next(each for each in module.tree.body if getattr(each, "name", "") == "Net")
    files = [each for each in project.mentioning() if name in each.words]
    return is_read_outside(project, files, [(module, cls)], name)  # type: ignore[list-item]


@pytest.mark.parametrize(
    "code",
    [
        "net = Net()\ny = net.leave(x)",
        "net = Net().cuda()\ny = net.leave(x)",
        "def build():\n    net = Net()\n    return net\ny = build().leave(x)",
        "class All:\n    def __init__(self):\n        self.n = Net()\n    def run(self, x):\n        self.n.leave(x)",
        "def run(x, net: Net):\n    return net.leave(x)",
        "class More(Net):\n    def forward(self, x):\n        return self.leave(x)",
        "from net import Net as N\nclass More(N):\n    def forward(self, x):\n        return self.leave(x)",
        "y = getattr(Net(), 'leave')(x)",
    ],
    ids=["made", "moved", "by-a-function", "held", "annotated", "derived", "renamed", "by-its-name"],
)
def test_an_object_of_the_class(tmp_path: Path, code: str) -> None:
    assert read(tmp_path, code) is True


@pytest.mark.parametrize(
    "code",
    [
        "net = Other()\ny = net.leave(x)",
        "net = torchvision.models.resnet18()\ny = net.leave(x)",
        "def run(x, net: Other):\n    return net.leave(x)",
        "class More(Other):\n    def forward(self, x):\n        return self.leave(x)",
        "def run(x, net):\n    return net.leave(net.extra(x))",
        "def run(args):\n    return args.leave",
        "leave = {'leave': 1}\nprint(leave['leave'])",
        "net = Net()\nnet.leave.register_forward_hook(hook)",
        "import torch\nnet = Net()\ntorch.nn.init.zeros_(net.leave.weight)\nnet.leave.bias.data.fill_(1)",
    ],
    ids=["made", "library", "annotated", "derived", "has-more", "options", "keys", "hook", "weights-set"],
)
def test_something_else(tmp_path: Path, code: str) -> None:
    assert read(tmp_path, code) is False


def test_what_may_be_either(tmp_path: Path) -> None:
    code = "def run(x, net):\n    return net.leave(x)"
    assert read(tmp_path, code) is None
    assert read(tmp_path, code, net=NET.partition("class Other")[0]) is True


def test_attributes_are_known_of_closed_classes_alone(tmp_path: Path) -> None:
    open_ = NET.replace("self.enter = nn", "setattr(self, 'a', 1)\n        self.enter = nn")
    for text, is_closed in ((NET, True), (open_, False), (NET.replace("Net(nn.Module)", "Net(Unknown)"), False)):
        (tmp_path / "net.py").write_text(text, "utf-8")
        project = Project(tmp_path)
        module = project.load(tmp_path / "net.py")
        cls = next(each for each in module.tree.body if getattr(each, "name", "") == "Net")
        assert (Kin(project, [(module, cls)]).attributes is not None) is is_closed  # type: ignore[list-item]
