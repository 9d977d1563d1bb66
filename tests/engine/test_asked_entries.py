"""Dicts that are asked for what an option names: the program's default tells which entry it is."""

from __future__ import annotations

from pathlib import Path

import pytest
from interpreting import run

from dllint.choices import alternatives
from dllint.events import OptimizerCreated

REGISTRY = """
import argparse
import torch

class Adam:
    def build(self, model):
        return torch.optim.Adam(model.parameters())

class Plain:
    def build(self, model):
        return torch.optim.SGD(model.parameters(), lr=0.1)

MAKERS = {{"adam": Adam(), "sgd": Plain()}}
parser = argparse.ArgumentParser()
parser.add_argument("--optimizer"{default})
args = parser.parse_args()
maker = {asked}
if maker is None:
    raise ValueError(args.optimizer)
optimizer = maker.build(torch.nn.Linear(2, 2))
"""
ASKED = ["MAKERS[args.optimizer]", "MAKERS.get(args.optimizer)", "MAKERS.get(args.optimizer, None)"]


@pytest.mark.parametrize("asked", ASKED)
def test_the_default_of_an_option_tells_the_entry(tmp_path: Path, asked: str) -> None:
    made = run(tmp_path, REGISTRY.format(asked=asked, default=', default="sgd"'))
    options = alternatives(made.variables["optimizer"])
    assert len(options) == 2
    by_default = {
        guard.operand: guard.by_default
        for event in made.all_of(OptimizerCreated)
        for guard in event.guards
        if guard.subject == "args.optimizer"
    }
    assert by_default == {"adam": False, "sgd": True}


@pytest.mark.parametrize("asked", ASKED)
def test_without_a_default_any_entry_may_be_asked_for(tmp_path: Path, asked: str) -> None:
    made = run(tmp_path, REGISTRY.format(asked=asked, default=", required=True"))
    events = made.all_of(OptimizerCreated)
    assert len(events) == 2
    assert not any(guard.by_default for event in events for guard in event.guards)


def test_a_default_that_is_no_key_tells_nothing(tmp_path: Path) -> None:
    made = run(tmp_path, REGISTRY.format(asked=ASKED[1], default=', default="lion"'))
    assert not any(guard.by_default for event in made.all_of(OptimizerCreated) for guard in event.guards)


def test_what_is_given_in_place_of_an_entry_is_one_of_the_values(tmp_path: Path) -> None:
    source = """
    import json
    import torch

    settings = json.load(open("settings.json"))
    losses = {"l1": torch.nn.L1Loss()}
    loss = losses.get(settings["loss"], torch.nn.MSELoss())
    """
    names = {getattr(option, "library_name", "") for _, option in alternatives(run(tmp_path, source).variables["loss"])}
    assert names == {"torch.nn.L1Loss", "torch.nn.MSELoss"}


def test_of_a_dict_that_is_not_known_in_full_nothing_is_told(tmp_path: Path) -> None:
    source = """
    import json
    import torch

    settings = json.load(open("settings.json"))
    losses = {"l1": torch.nn.L1Loss(), **settings["more"]}
    loss = losses.get(settings["loss"])
    """
    assert not any(
        getattr(option, "library_name", "") for _, option in alternatives(run(tmp_path, source).variables["loss"])
    )


ZOO = """
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--net"{default})
args = parser.parse_args()

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.out = torch.nn.Linear(2, 2)

{classes}
nets = {{{nets}}}
model = nets[args.net]()
"""
MANY = "abcdefgh"


def _zoo(folder: Path, default: str) -> list[str]:
    classes = "".join(f"class {name.upper()}(Net):\n    pass\n" for name in MANY)
    nets = ", ".join(f"'{name}': {name.upper()}" for name in MANY)
    made = run(folder, ZOO.format(default=default, classes=classes, nets=nets)).variables["model"]
    return [repr(option) for _, option in alternatives(made)]


def test_of_very_many_values_that_of_the_default_is_followed_and_the_others_are_not_known(tmp_path: Path) -> None:
    followed, other = _zoo(tmp_path, ', default="c"')
    assert followed == "Instance(C)"
    assert other.startswith("Symbol(unknown")


def test_of_very_many_values_without_a_default_none_is_followed(tmp_path: Path) -> None:
    (only,) = _zoo(tmp_path, ", required=True")
    assert only.startswith("Symbol(unknown")
