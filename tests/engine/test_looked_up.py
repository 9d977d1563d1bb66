"""A name in a configuration is a use of what is defined under it only where some code looks names up."""

from __future__ import annotations

import pytest
from engine_support import FITS, NET, kinds


@pytest.mark.parametrize(
    ("lookup", "config"),
    [
        ("import torch.nn as nn\n\ndef make(name):\n    return getattr(nn, name)()\n", "model: Net\n"),
        ("import sys\n\ndef make(name):\n    return getattr(sys.modules[__name__], name)()\n", "model: Net\n"),
        ("import helpers\n\ndef make(name):\n    return getattr(helpers, name)()\n", "model: Net\n"),
        ("def read(args, name):\n    return getattr(args, name), getattr(args.model, 'size')\n", "model: Net\n"),
        ("def make(name):\n    return globals()[name]()\n", "model: Net\n"),
        ("model.eval()\n", "model: Net\n"),
    ],
    ids=["library", "its-own-file", "another-file", "settings", "its-own-names", "none"],
)
def test_a_name_that_nothing_looks_up_there(lookup: str, config: str) -> None:
    files = {"README.md": "", "helpers.py": "size = 3\n", "make.py": lookup, "conf.yaml": config, "run.py": FITS}
    assert kinds("DL308", NET, files) == ["effect"]


@pytest.mark.parametrize(
    ("lookup", "config"),
    [
        ("import main\n\ndef make(name):\n    return getattr(main, name)()\n", "model: Net\n"),
        ("import nets\n\ndef make(name):\n    return getattr(nets, name)()\n", "model: Net\n"),
        ("from main import *\n\ndef make(name):\n    return globals()[name]()\n", "model: Net\n"),
        ("from main import *\n\ndef make(name):\n    return eval(name)()\n", "model: Net\n"),
        ("def make(package, name):\n    return getattr(package, name)()\n", "model: Net\n"),
        ("from hydra.utils import instantiate\n", "model: Net\n"),
        ("", "_target_: main.Net\n"),
        ("", "class_path: main:Net\n"),
        ("", "command: python -c 'from main import Other, Net; Net()'\n"),
    ],
    ids=["getattr", "of-a-package", "globals", "eval", "of-anything", "a-framework", "path", "entry-point", "command"],
)
def test_a_name_that_is_looked_up(lookup: str, config: str) -> None:
    files = {"README.md": "", "nets.py": "from main import *\n", "make.py": lookup, "conf.yaml": config, "run.py": FITS}
    assert "effect" not in kinds("DL308", NET, files)


@pytest.mark.parametrize(
    ("test", "expected"),
    [("print(Net()(torch.rand(2, 4)).shape)", ["effect"]), ("assert fit(Net()) > 0", [])],
    ids=["shapes", "more"],
)
def test_a_function_for_tests_that_only_looks_at_shapes(test: str, expected: list[str]) -> None:
    source = f"from fitting import fit\n{NET}\n\ndef test():\n    {test}\n"
    assert kinds("DL308", source, {"README.md": "", "run.py": FITS}) == expected
