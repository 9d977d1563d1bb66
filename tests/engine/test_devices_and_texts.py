"""What comes of comparing a `torch.device` with a text: no device equals one, as torch itself says."""

from __future__ import annotations

from pathlib import Path

import pytest
from interpreting import run

from dllint.values import Const

DEVICES = """
import torch
from elsewhere import given

is_there = torch.cuda.is_available()
device = torch.device("cuda" if is_there else "cpu")
other = torch.device("cuda:0") if is_there else torch.device("cpu")
mixed = torch.device("cuda") if is_there else "cpu"
name = "cuda" if is_there else "cpu"
value = {test}
"""


@pytest.mark.parametrize(
    ("test", "outcome"),
    [
        ("device == 'cuda'", False),
        ("'cpu' == device", False),
        ("device == name", False),
        ("device != 'cpu'", True),
        ("other is 'cuda'", False),
        ("device in ('cuda', 'cuda:0')", False),
        ("other not in ['cpu']", True),
    ],
)
def test_no_device_equals_a_text(tmp_path: Path, test: str, outcome: bool) -> None:
    value = run(tmp_path, DEVICES.format(test=test)).variables["value"]
    assert isinstance(value, Const)
    assert value.value is outcome


@pytest.mark.parametrize(
    "test",
    [
        "device.type == 'cuda'",
        "str(device) == 'cuda'",
        "mixed == 'cuda'",
        "name == 'cuda'",
        "device == torch.device('cpu')",
        "device == given",
        "given == 'cuda'",
        "device in ('cuda', other)",
    ],
)
def test_other_comparisons_may_hold(tmp_path: Path, test: str) -> None:
    assert not isinstance(run(tmp_path, DEVICES.format(test=test)).variables["value"], Const)


@pytest.mark.parametrize("test", ["device == 'cuda'", "device != 'cpu'", "device in ('cuda',)", "'cpu' == device"])
def test_torch_says_so_too(tmp_path: Path, test: str) -> None:
    torch = pytest.importorskip("torch")
    value = run(tmp_path, DEVICES.format(test=test)).variables["value"]
    assert isinstance(value, Const)
    for name in ("cuda", "cpu"):
        assert value.value is eval(test, {"device": torch.device(name)})
