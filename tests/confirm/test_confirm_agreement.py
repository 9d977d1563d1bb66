"""What the interpreter predicts of a script is what the script does, event by event."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from confirm_support import SCRIPTS

pytestmark = pytest.mark.slow
BENCH = Path(__file__).resolve().parents[2] / "bench" / "agreement.py"

BY_HAND = {("zero_grad", "            p.grad = None")}
"""What only the interpreter sees: no function of torch is called."""


@pytest.fixture(scope="module")
def agreement() -> ModuleType:
    spec = importlib.util.spec_from_file_location("agreement", BENCH)
    assert spec is not None and spec.loader is not None
    module = sys.modules["agreement"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_script_does_what_is_predicted(agreement: ModuleType) -> None:
    script = (SCRIPTS / "loops_good.py").resolve()
    found = agreement.compare(script)
    lines = script.read_text().splitlines()
    assert found.observed > 60 and found.predicted >= found.observed
    assert found.missed == []
    assert {(name, lines[line - 1]) for name, _, line in found.invented} == BY_HAND


def test_differences_are_found(agreement: ModuleType, tmp_path: Path) -> None:
    """A step that only the run sees, and one that is predicted though the run leaves before."""
    script = tmp_path / "train.py"
    script.write_text(
        "import torch\n\nmodel = torch.nn.Linear(2, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "model(torch.randn(4, 2)).sum().backward()\nexec('optimizer.step()')\nexec('raise SystemExit')\n"
        "optimizer.zero_grad()\n"
    )
    found = agreement.compare(script)
    assert [(name, line) for name, _, line in found.missed] == [("optimizer_step", 6)]
    assert [(name, line) for name, _, line in found.invented] == [("zero_grad", 8)]
