"""What stands in an arm that no known setting of the project takes is a question, for all rules alike."""

from __future__ import annotations

import pytest
from engine_support import found

# A rule that is about what was interpreted, and one that reads the file: under a test each.
LOSS = """
import torch.nn.functional as F
{head}
def train(config, model, loader):
    for x, y in loader:
        out = model(x)
        if {test}:
            out = F.softmax(out, 1)
            F.cross_entropy(out, y).backward()

def main(config, model, loader):
    train(config, model, loader)

if __name__ == "__main__":
    main({config}, None, None)
"""
NAME = """
import numpy as np
{head}
def train(config):
    if {test}:
        return np.float(3)
    return 1

if __name__ == "__main__":
    train({config})
"""
OPEN_HEAD = "from elsewhere import load"


def kinds(source: str, test: str, files: dict[str, str], head: str = OPEN_HEAD, config: str = "load()") -> list[str]:
    """The kinds of what the finding in a program assumes, but for the version of a library."""
    code = "DL842" if "np." in source else "DL101"
    (finding,) = found(code, source.format(test=test, head=head, config=config), files)
    return [each.kind for each in finding.assumptions if each.kind != "version"]


@pytest.mark.parametrize("source", [LOSS, NAME], ids=["interpreted", "read"])
@pytest.mark.parametrize(
    ("test", "files"),
    [
        ("config.noise > 0", {"conf/a.yaml": "noise: 0.0\n", "conf/b.yaml": "noise: 0\n"}),
        ("config['loss'] == 'ce'", {"a.json": '{"loss": "dice"}', "b.json": '{"loss": "focal"}'}),
        ("not config.soft", {"a.yaml": "soft: true\n", "b.yaml": "soft: true\n"}),
        ("config.loss != 'dice'", {"a.yaml": "loss: dice\n", "b.yaml": "loss: dice\n"}),
        ("config.loss in ('ce', 'nll')", {"a.toml": "loss = 'dice'\n", "b.yaml": "loss: focal\n"}),
        ("config.soft and config.loss == 'ce'", {"a.yaml": "loss: dice\nsoft: true\n", "b.yaml": "loss: focal\n"}),
        ("config.loss == 'ce' or config.loss == 'nll'", {"a.yaml": "loss: dice\n", "b.yaml": "loss: focal\n"}),
        ("config.loss.lower() == 'ce'", {"a.yaml": "loss: Dice\n", "b.yaml": "loss: focal\n"}),
        ("config.get('smooth', False)", {"a.yaml": "smooth: no\n", "b.yaml": "smooth: off\n"}),
        (
            "config.loss == 'ce'",
            {"settings.py": "class Settings:\n    loss = 'dice'\nclass Small(Settings):\n    loss = 'nll'\n"},
        ),
        ("config.loss == 'ce'", {"conf1.py": "cfg = {'loss': 'dice'}\n", "conf2.py": "cfg = {'loss': 'focal'}\n"}),
        (
            "config.loss == 'ce'",
            {"a.py": "from b import Config\nconfigs = [Config(loss='dice'), Config(loss='nll')]\n"},
        ),
    ],
)
def test_what_no_setting_asks_for(source: str, test: str, files: dict[str, str]) -> None:
    assert kinds(source, test, files) == ["no-default"]


@pytest.mark.parametrize("source", [LOSS, NAME], ids=["interpreted", "read"])
@pytest.mark.parametrize(
    ("test", "files"),
    [
        ("config.noise > 0", {}),
        ("config.noise > 0", {"a.yaml": "noise: 0.0\n", "b.yaml": "noise: 0.1\n"}),
        ("config.noise > 0", {"a.yaml": "noise: ${other}\n"}),
        ("config.loss == 'ce'", {"a.yaml": "loss: dice\n", "run.sh": "python main.py loss=ce\n"}),
        ("config.loss == 'ce'", {"a.yaml": "loss:\n  name: dice\n"}),
        ("config.loss == 'ce'", {"a.yaml": "loss: dice\n", "b.py": "config.loss = choose()\n"}),
        ("config.loss == 'ce'", {"a.yaml": "loss: dice\n", "b.py": "config['loss'] = 'ce'\n"}),
        ("config.loss == 'ce'", {"a.py": "from b import Config\nconfig = Config(loss=choose())\n"}),
        ("config.soft", {"a.yaml": "soft: false\n"}),
        ("config.soft", {"settings.py": "class Settings:\n    soft = False\n"}),
        ("config.extra", {"a.yaml": "extra:\n"}),
        ("config.extra", {"a.yaml": "extra: null\n"}),
        ("config.resume", {"a.yaml": "resume: false\n"}),
        ("config.mode == 'eval'", {"a.yaml": "mode: train\n"}),
        ("config.loss == model.kind", {"a.yaml": "loss: dice\n"}),
        ("model.loss == 'ce'", {"a.yaml": "loss: dice\n"}),
        (
            "config.loss == 'ce'",
            {"cli.py": "import main\nparser.add_argument('--loss')\nmain.main()\n", "a.yaml": "loss: dice\n"},
        ),
        (
            "config.loss == 'ce'",
            {"a.py": "from transformers import HfArgumentParser\nclass A:\n    loss: str = 'dice'\n"},
        ),
    ],
)
def test_what_somebody_may_ask_for(source: str, test: str, files: dict[str, str]) -> None:
    source = source.replace("def train(config", "def train(config, model=None") if source is NAME else source
    assert kinds(source, test, files) == []


def test_choices_of_an_option() -> None:
    head = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--loss', choices=[{}])"
    for choices, expected in (("'dice', 'focal'", ["no-default"]), ("'dice', 'ce'", [])):
        found_kinds = kinds(NAME, "config.loss == 'ce'", {}, head.format(choices), "parser.parse_args()")
        assert found_kinds == expected


OFFERED = """
import numpy as np

class CFG:
    loss = "dice"  # ["dice", "ce"]
    {}

if CFG.loss == "ce":
    weight = np.float(CFG.weight)
"""


def test_what_a_comment_offers_may_be_chosen() -> None:
    (finding,) = found("DL842", OFFERED.format("weight = 1"))
    assert [each.kind for each in finding.assumptions] == ["version"]


def test_what_a_comment_offers_and_could_not_run() -> None:
    (finding,) = found("DL842", OFFERED.format("# weight = 1"))
    assert "no-default" in [each.kind for each in finding.assumptions]


PARAMETER = """
from torch import nn

class Net(nn.Module):
    def __init__(self, size, freeze=False):
        super().__init__()
        self.stem = nn.Linear(size, size)
        if freeze:
            self.freeze()

    def freeze(self):
        self.stem.requires_grad = False

    def forward(self, x):
        return self.stem(x)
"""


@pytest.mark.parametrize(
    ("caller", "expected"),
    [
        ("net = make(Net, 4)", ["no-default"]),
        ("net = make(Net, 4, freeze=True)", []),
        ("net = make(Net, options={'freeze': True})", []),
        ("net = make(Net, freeze=chosen)", []),
        ("def build():\n    return registry.Net(4, True)", []),
        ("def build(given):\n    return registry.Net(*given)", []),
    ],
)
def test_a_parameter_that_nobody_gives(caller: str, expected: list[str]) -> None:
    files = {"README.md": "", "run.py": f"from main import Net\nfrom elsewhere import make, registry\n{caller}\n"}
    (finding,) = found("DL309", PARAMETER, files)
    assert [each.kind for each in finding.assumptions if each.kind not in ("entry", "effect")] == expected


def test_the_callers_of_a_library_may_give_it() -> None:
    (finding,) = found("DL309", PARAMETER)
    assert "no-default" not in [each.kind for each in finding.assumptions]


FLAG = """
import torch.nn as nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self, width, thin=False):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.thin = thin

    def forward(self, x):
        x = self.layer(x)
        if self.thin:
            x = F.dropout(x)
        return x
"""
MAKES = """
from main import Net
import torch

class Kinds:
    net = Net

def fit(model, x):
    model(x).sum().backward()

if __name__ == "__main__":
    fit({made}, torch.zeros(2, 3))
"""


@pytest.mark.parametrize(
    ("made", "more", "is_asked_for"),
    [
        ("Kinds.net(3)", "", False),
        ("Kinds.net(3).to('cuda')", "print(3, 4, 5)\nhelp = torch.full(3, 4, 5)", False),
        ("make(3)", "net = make()\nmodel = net(3, True)", True),
        ("make(3)", "model = make(thin=True)", True),
        ("make(3)", "options = {'thin': True}", True),
        ("make(3)", "model.thin = True", True),
        ("make(3)", "class Wide(Net):\n    pass", True),
        ("make(3)", "model = make()(*sizes, **options)", True),
    ],
)
def test_a_flag_that_nothing_switches_on(made: str, more: str, is_asked_for: bool) -> None:
    files = {"README.md": "", "run.py": MAKES.format(made=made) + more + "\n"}
    (finding,) = found("DL216", FLAG, files)
    assert ("no-default" not in [each.kind for each in finding.assumptions]) is is_asked_for
