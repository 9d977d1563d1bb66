"""What a script certainly does not get to, as it fails before, has no effect and uses nothing."""

from __future__ import annotations

import pytest
from engine_support import kinds

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


IN_A_BRANCH = """
import argparse
import torch
from tools import begun, trained

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--rate", type=float, default=0.1)
    args = parser.parse_args()
    if args.again:
        print("on with", args.{})
        trained(args)
    else:
        begun(args)

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(("name", "expected"), [("rate", []), ("lr", ["effect"])])
def test_what_a_branch_does_not_get_to_is_not_called(name: str, expected: list[str]) -> None:
    """The other one is, whatever happens in this."""
    tools = (
        "import numpy as np\n\ndef trained(args):\n    return np.float(args.rate)\n\ndef begun(args):\n    return 3\n"
    )
    files = {"tools.py": tools, "README.md": ""}
    assert [kind for kind in kinds("DL842", IN_A_BRANCH.format(name), files) if kind == "effect"] == expected
    swapped = {**files, "tools.py": tools.replace("trained", "x").replace("begun", "trained").replace("x(", "begun(")}
    assert "effect" not in kinds("DL842", IN_A_BRANCH.format(name), swapped)


@pytest.mark.parametrize(("name", "expected"), [("flip", []), ("flop", ["effect"])])
def test_nor_does_it_get_past_a_name_that_nothing_binds(name: str, expected: list[str]) -> None:
    tools = "import numpy as np\n\ndef trained(x, flip):\n    return np.float(x)\n"
    files = {"tools.py": tools, "README.md": ""}
    source = FAILING.replace("if args.{}:", f"if {name}:")
    assert [kind for kind in kinds("DL842", source, files) if kind == "effect"] == expected


@pytest.mark.parametrize(("command", "expected"), [("python run.py", ["effect"]), ("python main.py", []), ("", [])])
def test_a_call_that_is_refused_is_mended_by_who_runs_the_script(command: str, expected: list[str]) -> None:
    """What no command of the project runs fails unseen, and what else is wrong there has no effect."""
    source = FAILING.format("flip").replace("flip = args.flip", "def make(depth):\n    return depth\nmake()")
    files = {"tools.py": "def trained(x, flip):\n    return x\n", "run.py": "print(1)\n", "README.md": command}
    assert kinds("DL841", source, files) == expected


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
