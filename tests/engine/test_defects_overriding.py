"""Constants in an object of options are settings once something may have overridden them, and constants before."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from interpreting import run

from dllint.values import Const, Setting

HEAD = """
import argparse
import sys
from dataclasses import dataclass
from types import SimpleNamespace

@dataclass
class Data:
    k: int = 4

class Plain:
    k = 4

class Parsing:
    k = 4
    def parse(self, text):
        for pair in text.split(","):
            name, value = pair.split("=")
            setattr(self, name, value)
    def load(self, options):
        self.__dict__.update(options)
    def fill(self, **options):
        vars(self).update(options)
    def put(self, options):
        for name in options:
            self.__dict__[name] = options[name]
    @classmethod
    def change(cls, name, value):
        setattr(cls, name, value)
    @classmethod
    def from_dict(cls, options):
        return cls.made(**options)
    @classmethod
    def made(cls, k=4):
        found = cls()
        found.k = k
        return found

args = argparse.ArgumentParser().parse_args()
"""


def value_of(folder: Path, code: str) -> object:
    return run(folder, HEAD + textwrap.dedent(code)).variables["value"]


@pytest.mark.parametrize(
    "code",
    [
        "from tensorflow.contrib.training import HParams\nc = HParams(k=4)\nc.parse(sys.argv[1])",
        "c = Parsing()\nc.parse(sys.argv[1])",
        "c = Parsing()\nc.load(read())",
        "c = Parsing()\nc.load(vars(args))",
        "c = Parsing()\nc.fill(**read())",
        "c = Parsing()\nc.put(read())",
        "Parsing.change(sys.argv[1], 3)\nc = Parsing()",
        "c = Parsing.from_dict(read())",
        "c = Data()\nsetattr(c, sys.argv[1], 3)",
        "c = Data()\nfor name, value in vars(args).items():\n    setattr(c, name, value)",
        "c = Data()\nc.__dict__.update(read())",
        "c = Data()\nvars(c).update(read())",
        "c = Data(**read())",
        "c = SimpleNamespace(k=4)\nc.__dict__.update(read())",
        "c = SimpleNamespace(k=4)\nupdate_config(c, args)",
        "c = SimpleNamespace(k=4)\nc.k, other = 4, vars(c)\nother[sys.argv[1]] = 3",
        "import tyro\nc = tyro.cli(Data)",
        "import simple_parsing\nc = simple_parsing.parse(config_class=Data)",
        "from omegaconf import OmegaConf\nc = OmegaConf.structured(Data)",
        "from transformers import HfArgumentParser\nc, = HfArgumentParser(Data).parse_args_into_dataclasses()",
        "from transformers import HfArgumentParser\nc = HfArgumentParser(Data).parse_args_into_dataclasses()[0]",
        "from transformers import HfArgumentParser, TrainingArguments as T\n"
        "t, c = HfArgumentParser((T, Data)).parse_args_into_dataclasses()",
        "from tap import Tap\nclass Options(Tap):\n    k: int = 4\nc = Options().parse_args()",
        "c = SimpleNamespace(k=dict(n=4))\nc.__dict__.update(read())\nc = SimpleNamespace(k=c.k['n'])",
    ],
)
def test_what_may_be_overridden_is_a_setting(tmp_path: Path, code: str) -> None:
    found = value_of(tmp_path, f"{code}\nvalue = c.k")
    assert isinstance(found, Setting) and isinstance(found.default, Const) and found.default.value == 4


def test_what_a_function_of_a_parser_is_given_is_a_setting(tmp_path: Path) -> None:
    code = """
    import tyro
    def main(k: int = 4):
        global value
        value = k
    tyro.cli(main)
    """
    assert isinstance(value_of(tmp_path, code), Setting)


def test_the_entries_of_a_dict_that_something_unknown_updates(tmp_path: Path) -> None:
    found = value_of(tmp_path, "c = {'k': 4}\nc.update(read())\nvalue = c['k']")
    assert isinstance(found, Setting)


@pytest.mark.parametrize(
    "code",
    [
        "c = Plain()",
        "c = Plain",
        "c = Data()",
        "c = Data(k=4)",
        "c = SimpleNamespace(k=4)",
        "c = SimpleNamespace(k=4)\nprint(vars(c), c.__dict__.items())",
        "c = Data()\nc.__dict__.update(other=3)",
        "c = Data()\nvars(c)['k'] = 4",
        "c = Data()\nc.__dict__.update({'k': 4})",
        "c = Parsing()",
        "c = Parsing.made()",
        "c = Data()\nsetattr(c, 'other', 3)",
        "c = Data()\nother = Data(**read())",
    ],
)
def test_what_nothing_overrides_is_a_constant(tmp_path: Path, code: str) -> None:
    found = value_of(tmp_path, f"{code}\nvalue = c.k")
    assert isinstance(found, Const) and found.value == 4


def test_modules_are_not_configured_by_their_attributes(tmp_path: Path) -> None:
    code = """
    import torch
    class Net(torch.nn.Module):
        def __init__(self, sizes):
            super().__init__()
            self.k = 4
            for i, size in enumerate(read()):
                setattr(self, f"layer{i}", torch.nn.Linear(size, size))
    value = Net(3).k
    """
    found = value_of(tmp_path, code)
    assert isinstance(found, Const) and found.value == 4
